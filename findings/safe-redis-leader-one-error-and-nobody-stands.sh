#!/usr/bin/env bash
# safe-redis-leader (npm) 0.0.6: after one command that fails, a candidate never stands again, and a
# leader neither renews nor is demoted. One second in which the server refuses writes for want of a
# replica leaves an election without candidates for as long as the processes run, and its last leader
# without the 'demoted' that it waits for.
# The timers for the next try and the next renewal are set behind the command alone; where it throws,
# 'error' is emitted and nothing is planned. A good guess: it tries again, `wait` later.
# Versions: safe-redis-leader 0.0.6, ioredis 5.11.1, Redis 7.0.15.
set -eu

dir=$(mktemp -d)
pids=
finish() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	chmod -R u+w "$dir" 2>/dev/null || :
	rm -rf "$dir"
}
trap finish EXIT
start_redis() { # prints nothing; sets $port
	port=$((20000 + RANDOM % 12000))
	while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
	mkdir "$dir/redis$port"
	redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$dir/redis$port" \
		>"$dir/redis$port/log" &
	pids="$pids $!"
	until [ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
}

start_redis
cd "$dir"
npm install --no-audit --no-fund --silent safe-redis-leader@0.0.6 ioredis@5.11.1 >/dev/null
cat >run.js <<'JS'
const Redis = require('ioredis')
const { createSafeRedisLeader } = require('safe-redis-leader')
const port = Number(process.argv[2])
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const told = { a: [], b: [], c: [] }
let wrong = 0
function expect(what, is) {
  console.log(`${is ? 'seen   ' : 'NOT SEEN'} ${what}`)
  if (!is) wrong++
}
async function candidate(name) {
  const own = new Redis(port)
  const leader = await createSafeRedisLeader({ asyncRedis: own, ttl: 1000, wait: 200, key: 'shop' })
  for (const event of ['elected', 'demoted', 'error'])
    leader.on(event, error => told[name].push(error ? error.message.split(' ')[0] : event))
  await leader.elect()
  return leader
}
async function main() {
  const look = new Redis(port)
  const a = await candidate('a'), b = await candidate('b')
  await sleep(2000)
  console.log('two candidates, 2 s:', JSON.stringify(told))
  expect('the first leads', told.a.join() === 'elected' && await a.isLeader() && !told.b.length)

  await look.config('SET', 'min-replicas-to-write', '1')
  await sleep(1000)
  await look.config('SET', 'min-replicas-to-write', '0')
  await sleep(5000)
  console.log('1 s without the replica, then 5 s with it:', JSON.stringify(told))
  const keys = await look.keys('leader:*')
  expect('nobody leads, and nobody tries', keys.length === 0 && !await a.isLeader() &&
    !await b.isLeader())
  expect('each was told of one error', told.b.join() === 'NOREPLICAS')
  expect('the leader was not demoted', told.a.join() === 'elected,NOREPLICAS')

  const c = await candidate('c')
  await sleep(200)
  console.log('a third comes:', JSON.stringify(told))
  expect('a third leads at once, and the first is not told', await c.isLeader() &&
    !told.a.includes('demoted'))
  process.exit(wrong ? 1 : 0)
}
main().catch(error => { console.error(error); process.exit(1) })
JS
node run.js "$port"
echo "as stated"
