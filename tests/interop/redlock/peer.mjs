// node-redlock in the hands of a Python program: reads commands from stdin and runs those of one
// named thread in turn, as tests/system/driver does for C. usage: peer.mjs BOOTTIME_OFFSET_NS
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import Redlock, { ExecutionError, ResourceLockedError } from "redlock";

const RETRY_MS = 20;
const ROUNDS_MAX = 600; // a minute
const offsetNs = BigInt(process.argv[2] ?? 0);
const queues = new Map(); // of each thread: the promise of its last command
const locks = new Map(); // by thread and name
let redlock;
let stops = 0;

// Nanoseconds do not fit a double: they are written as the digits of a BigInt.
const nowNs = () => process.hrtime.bigint() + offsetNs;

function parse(line) {
	const [id, thread, verb, ...words] = line.trim().split(" ");
	const given = new Map(words.map((word) => {
		const equals = word.indexOf("=");
		return [word.slice(0, equals), decodeURIComponent(word.slice(equals + 1))];
	}));
	const number = (key, otherwise) => (given.has(key) ? Number(given.get(key)) : otherwise);
	return { id: Number(id), thread, verb, given, number, text: (key) => given.get(key) };
}

function send(answer) {
	const members = Object.entries(answer).map(([key, value]) =>
		`${JSON.stringify(key)}:${typeof value === "bigint" ? value : JSON.stringify(value)}`);
	process.stdout.write(`{${members.join(",")}}\n`);
}

function open(command) {
	const clients = command.text("url").split(",").map((url) =>
		new Redis(url, { maxRetriesPerRequest: 0 }).on("error", () => {}));
	redlock = new Redlock(clients, { retryDelay: RETRY_MS, retryJitter: 5 });
	redlock.on("error", () => {});
}

// "wait" is made of tries: node-redlock has no limit in time. Without a limit (-1) it is asked anew
// after a few tries: between two of them it keeps what a minority of servers gave it, and takes that
// for another's, so that it would stand in its own way until the lease is over.
async function acquire(command, waitMs) {
	const take = (retryCount) =>
		redlock.acquire([command.text("name")], command.number("lease", 30000), { retryCount });
	if (waitMs >= 0)
		return take(Math.ceil(waitMs / RETRY_MS));
	for (let rounds = 0; ; rounds++) {
		try {
			return await take(5);
		} catch (error) {
			if (!(error instanceof ExecutionError) || rounds === ROUNDS_MAX)
				throw error;
		}
	}
}

// Its error is one for everything: a vote against tells a busy lock from a server that failed.
async function refused(error, command) {
	if (!(error instanceof ExecutionError))
		return "EXCEPTION";
	const last = await error.attempts[error.attempts.length - 1];
	if (![...last.votesAgainst.values()].some((why) => why instanceof ResourceLockedError))
		return "EXCEPTION";
	if (command.verb === "release" || command.verb === "extend")
		return "LK_ENOTOWNER";
	return command.number("wait", 0) > 0 ? "LK_ETIMEDOUT" : "LK_EBUSY";
}

async function pair(command, add, thread, attempt) {
	add(1, nowNs(), 0n, thread, attempt);
	const lock = await acquire(command, command.number("wait", -1)).catch(() => null);
	const now = nowNs();
	if (!lock) {
		add(3, now, 0n, thread, attempt);
		return false;
	}
	const deadline = now + BigInt(lock.expiration - Date.now()) * 1000000n;
	add(2, now, deadline, thread, attempt);
	await sleep(command.number("hold_us", 0) / 1000);
	add(4, nowNs(), deadline, thread, attempt);
	await lock.release().catch(() => {});
	add(5, nowNs(), deadline, thread, attempt);
	return true;
}

async function stress(command) {
	const history = createWriteStream(command.text("history") ?? "/dev/null");
	const add = (phase, time, deadline, thread, attempt) => history.write(
		`{"phase":${phase},"time_ns":${time},"deadline_ns":${deadline},` +
		`"thread":${thread},"attempt":${attempt}}\n`);
	const begun = stops;
	const counts = { grants: 0, failures: 0 };
	const work = async (thread) => {
		for (let i = 0; i < command.number("pairs", 1) && stops === begun; i++) {
			counts[await pair(command, add, thread, i) ? "grants" : "failures"]++;
			await sleep(command.number("pause_us", 0) / 1000);
		}
	};
	await Promise.all([...Array(command.number("threads", 1)).keys()].map(work));
	await new Promise((done) => history.end(done));
	return counts;
}

async function call(command) {
	const key = `${command.thread} ${command.text("name")}`;
	switch (command.verb) {
	case "open":
		return open(command);
	case "clock":
		return { value: nowNs() };
	case "stress":
		return stress(command);
	case "stop":
		stops++;
		return {};
	case "acquire":
	case "within":
	case "try": {
		const waitMs = command.verb === "acquire" ? -1 : command.number("wait", 0);
		const lock = await acquire(command, waitMs);
		locks.set(key, lock);
		return { token: lock.value, left_ms: lock.expiration - Date.now() };
	}
	case "release":
		await locks.get(key).release();
		return {};
	case "extend":
		locks.set(key, await locks.get(key).extend(command.number("lease", 30000)));
		return {};
	default:
		throw new Error("unknown verb");
	}
}

async function run(command) {
	const answer = { id: command.id, start_ns: nowNs(), code: "OK", result: 0 };
	try {
		Object.assign(answer, await call(command));
	} catch (error) {
		answer.code = await refused(error, command);
		answer.message = String(error);
	}
	send({ ...answer, end_ns: nowNs() });
}

createInterface({ input: process.stdin }).on("line", (line) => {
	const command = parse(line);
	if (command.verb === "quit")
		process.exit(0);
	const before = command.thread === "-" ? null : queues.get(command.thread);
	queues.set(command.thread, Promise.resolve(before).then(() => run(command)));
});
