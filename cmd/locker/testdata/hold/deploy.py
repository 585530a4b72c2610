import json, subprocess, sys

lock = subprocess.Popen(["locker", "hold", "--wait", "1m", "deploy"], text=True, bufsize=1,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def read():  # "" is the end of the output
    return json.loads(lock.stdout.readline() or '{"event":"ended"}')
def held():
    try: print("check", file=lock.stdin)
    except BrokenPipeError: pass  # it has ended, and its last line says why
    return read()["event"] == "held"

granted = read()
if granted["event"] != "granted": sys.exit(lock.wait())  # 118: somebody else has the lock
for step in ["build", "copy"]:
    if not held(): sys.exit("the lock was lost")
    print(step, "with token", int(granted["token"]))
lock.stdin.close()
print(read()["event"])
