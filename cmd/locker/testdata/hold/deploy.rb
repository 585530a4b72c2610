require "json"

lock = IO.popen(%w[locker hold --wait 1m deploy], "r+")
read = -> { JSON.parse(lock.gets || '{"event":"ended"}') } # nil is the end of the output
held = lambda do
  begin lock.puts "check" rescue Errno::EPIPE end # it has ended, and its last line says why
  read.call["event"] == "held"
end

granted = read.call
(lock.close; exit $?.exitstatus) if granted["event"] != "granted" # 118: somebody else has the lock
%w[build copy].each do |step|
  abort "the lock was lost" unless held.call
  puts "#{step} with token #{Integer(granted["token"])}"
end
lock.close_write
puts read.call["event"]
