import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const lock = spawn("locker", ["hold", "--wait", "1m", "deploy"], { stdio: ["pipe", "pipe", "inherit"] });
lock.stdin.on("error", () => {}); // it has ended, and its last line says why
const code = new Promise((ended) => lock.on("exit", ended));
const lines = createInterface({ input: lock.stdout })[Symbol.asyncIterator]();
const read = async () => JSON.parse((await lines.next()).value ?? '{"event":"ended"}');
const held = () => { lock.stdin.write("check\n"); return read().then((line) => line.event === "held"); };

const granted = await read();
if (granted.event !== "granted") process.exit(await code); // 118: somebody else has the lock
for (const step of ["build", "copy"]) {
  if (!(await held())) throw new Error("the lock was lost");
  console.log(step, "with token", BigInt(granted.token).toString());
}
lock.stdin.end();
console.log((await read()).event);
