#!/usr/bin/env node
// Node-redlock over one server, measured as bench/pairs.c and bench/hot.c measure our locks: the
// same arguments, the same warm-up, and one line of JSON with the same figures. A worker is an
// asynchronous loop; all of them share one thread and one connection.
//
// usage: peer.mjs URL WORKERS MS [hot]
//
// Each worker acquires and releases a name of its own; with hot, all of them the same name, held for
// no time, with node-redlock's own retries.
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const CLIENT_NAME = "lockkeeper-peer";
const LEASE_MS = 30000;
const WORKERS_MAX = 4096;
const WARM_PAIRS = 8000; // of all workers together
const SAMPLES_MAX = 1 << 21; // of all workers together
const LINE_LIMIT_MS = 20000;
const LIMIT_MS = 300000; // for all but the measured time
const HOT_NAME = "bench:peer:hot";

function die(message) {
	process.stderr.write(`bench: ${message}\n`);
	process.exit(1);
}

function number(text, least, most) {
	const value = /^\d+$/.test(text ?? "") ? Number(text) : NaN;
	if (!(value >= least && value <= most))
		die(`not a number from ${least} to ${most}: ${text}`);
	return value;
}

// User and system time of this process in us, and how often its threads have given up their core
// to wait.
function cost() {
	const { userCPUTime, systemCPUTime, voluntaryContextSwitches } = process.resourceUsage();
	return { cpuUs: userCPUTime + systemCPUTime, switches: voluntaryContextSwitches };
}

async function pairs(redis, redlock, count, ms) {
	const room = Math.floor(SAMPLES_MAX / 2 / count);
	const workers = Array.from({ length: count }, (_, i) => (
		{ name: `bench:peer:${i}`, pairs: 0, samples: new Float64Array(room), kept: 0 }));
	const pair = async (name) => (await redlock.acquire([name], LEASE_MS)).release();
	await Promise.all(workers.map(async ({ name }) => {
		for (let i = 0; i <= Math.floor(WARM_PAIRS / count); i++)
			await pair(name);
	}));
	const before = cost();
	const start = performance.now();
	const until = start + ms;
	await Promise.all(workers.map(async (worker) => {
		for (let begun = start; begun < until;) {
			await pair(worker.name);
			const now = performance.now();
			if (worker.kept < room)
				worker.samples[worker.kept++] = now - begun;
			worker.pairs++;
			begun = now;
		}
	}));
	const seconds = (performance.now() - start) / 1e3;
	const after = cost();
	const sum = workers.reduce((all, worker) => all + worker.pairs, 0);
	const samples = workers.flatMap((worker) => [...worker.samples.subarray(0, worker.kept)])
		.sort((left, right) => left - right);
	const us = (part) =>
		samples[Math.min(Math.floor(part * samples.length), samples.length - 1)] * 1e3;
	const connections = (await redis.client("LIST")).split(` name=${CLIENT_NAME} `).length - 1;
	return `{"pairs_s": ${(sum / seconds).toFixed(1)}, "p50_us": ${us(0.5).toFixed(2)}, ` +
		`"p99_us": ${us(0.99).toFixed(2)}, ` +
		`"cpu_us": ${((after.cpuUs - before.cpuUs) / sum).toFixed(3)}, ` +
		`"switches": ${((after.switches - before.switches) / sum).toFixed(3)}, ` +
		`"connections": ${connections}}`;
}

async function waitForLine(grants) {
	const limit = performance.now() + LINE_LIMIT_MS;
	while (grants.some((count) => count === 0)) {
		if (performance.now() > limit)
			die(`worker ${grants.indexOf(0)} had no grant in ${LINE_LIMIT_MS} ms`);
		await sleep(1);
	}
}

async function hot(redis, redlock, count, ms) {
	const grants = new Array(count).fill(0);
	let inside = 0;
	let stopped = false;
	await redis.del(HOT_NAME);
	const workers = grants.map(async (_, i) => {
		while (!stopped) {
			let lock;
			try {
				lock = await redlock.acquire([HOT_NAME], LEASE_MS);
			} catch (error) {
				// It has given up waiting: it has no other word for a busy lock.
				if (!(error instanceof ExecutionError))
					throw error;
				continue;
			}
			if (++inside !== 1)
				die("two holders");
			grants[i]++;
			inside--;
			await lock.release();
		}
	});
	// A worker that fails ends the program at once.
	Promise.all(workers).catch((error) => die(error));
	await waitForLine(grants);
	const before = cost();
	const counted = [...grants];
	const start = performance.now();
	await sleep(ms);
	const own = grants.map((now, i) => now - counted[i]);
	const seconds = (performance.now() - start) / 1e3;
	const cpuUs = cost().cpuUs - before.cpuUs;
	stopped = true;
	const sum = own.reduce((all, one) => all + one, 0);
	const fewest = Math.min(...own);
	const most = Math.max(...own);
	if (!sum)
		die("no grants");
	await Promise.all(workers);
	return `{"grants_s": ${(sum / seconds).toFixed(1)}, "fewest": ${fewest}, "most": ${most}, ` +
		`"spread": ${((most - fewest) * count / sum).toFixed(4)}, ` +
		`"cpu_us": ${(cpuUs / sum).toFixed(3)}}`;
}

const [url, workersText, msText, mode] = process.argv.slice(2);
if (process.argv.length < 5 || process.argv.length > 6 || (mode ?? "hot") !== "hot")
	die("usage: peer.mjs URL WORKERS MS [hot]");
const count = number(workersText, 1, WORKERS_MAX);
const ms = number(msText, 10, 600000);
setTimeout(() => die(`not done within ${LIMIT_MS + ms} ms`), LIMIT_MS + ms).unref();
const redis = new Redis(url, { connectionName: CLIENT_NAME, maxRetriesPerRequest: 0 });
redis.on("error", (error) => die(error));
const redlock = new Redlock([redis]);
try {
	const line = await (mode ? hot : pairs)(redis, redlock, count, ms);
	process.stdout.write(`${line}\n`);
} catch (error) {
	die(error);
}
redis.disconnect();
