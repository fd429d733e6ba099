/**
 * What may be used once, over Redis. One script for each claim.
 *
 * A server that has lost its memory would take what was used for new. So each group of keys has a note that says since
 * when it has been kept, and by which run of the server; it names a random number. A claim counts only with the number this
 * process knows. When there is another, or none, or the connection was lost meanwhile, the process looks at the note
 * first; and a note made after a loss makes every claim fail whose value may have been used before it.
 */
import { randomUUID } from 'node:crypto'
import { TrustError } from '../../errors.ts'
import type { ReplayStore } from '../stores.ts'
import type { Connection } from './connection.ts'
import { digestOf, type Keys } from './keys.ts'
import { REFUSE_EVICTION, script } from './script.ts'

/** Groups of a Cluster, so that its nodes share the work. */
const CLUSTER_GROUPS = 16
/** Longest life of a claim: 30 days. The note lives longer, so that it never ends before what it vouches for. */
const MAX_TTL_SECONDS = 30 * 86_400
const NOTE_SECONDS = 2 * MAX_TTL_SECONDS

/**
 * KEYS: note. ARGV: the number this process knew (empty: none), a new one, seconds, '1' where a change of the server
 * means that claims may be missing. Returns the number that holds. The note: number, milliseconds since (0: as far as
 * anybody knows, for ever), run of the server.
 */
const LOOK = script(`
${REFUSE_EVICTION}
local knew, fresh, seconds, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local note = redis.call('HMGET', KEYS[1], 'number', 'since', 'run')
local number, since = note[1], tonumber(note[2] or '0')
local lost = false
if not number then
  lost = knew ~= ''
  number = fresh
elseif note[3] ~= run and strict == '1' then
  lost = true
  number = fresh
elseif knew ~= '' and knew ~= number and since == 0 then
  -- Somebody who knew of nothing before began anew.
  lost = true
  number = fresh
end
if lost then since = now end
redis.call('HSET', KEYS[1], 'number', number, 'since', string.format('%.0f', since), 'run', run)
redis.call('EXPIRE', KEYS[1], seconds)
return number
`)

/** KEYS: note, claim. ARGV: number, milliseconds. Returns 1 new, 0 used before, -1 another number, -2 too soon after a loss. */
const CLAIM = script(`
local note = redis.call('HMGET', KEYS[1], 'number', 'since')
if note[1] ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if note[2] ~= '0' then
  local time = redis.call('TIME')
  if time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(note[2]) < tonumber(ARGV[2]) then return -2 end
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
return 1
`)

interface Group {
  readonly note: string
  number: string
  /** Of the connection, when the note was looked at. */
  generation: number
  looking: Promise<void> | undefined
}

export function createRedisReplayStore(connection: Connection, keys: Keys, replicas: number): ReplayStore {
  const count = connection.isCluster ? CLUSTER_GROUPS : 1
  const groups = Array.from({ length: count }, (_, index): Group => {
    const note = keys.key(`replay${index}`, 'note')
    return { note, number: '', generation: -1, looking: undefined }
  })

  /** One look for all who need one. */
  function look(group: Group): Promise<void> {
    group.looking ??= (async () => {
      const generation = connection.generation()
      const args = [group.number, randomUUID(), NOTE_SECONDS, replicas === 0 ? '1' : '0']
      const number = await connection.write(LOOK, [group.note], args)
      if (typeof number !== 'string' || number === '') throw unavailable('no note')
      group.number = number
      group.generation = generation
    })().finally(() => {
      group.looking = undefined
    })
    return group.looking
  }

  async function ask(group: Group, key: string, ttlMs: number): Promise<number> {
    if (group.generation !== connection.generation()) await look(group)
    const generation = connection.generation()
    const answer = Number(await connection.write(CLAIM, [group.note, key], [group.number, ttlMs]))
    // The client may have sent it again, to a server that knows less.
    if (generation !== connection.generation()) throw unavailable('the connection was lost meanwhile')
    return answer
  }

  return {
    async claim(value, ttlSeconds) {
      if (!(ttlSeconds > 0 && ttlSeconds <= MAX_TTL_SECONDS))
        throw new TypeError(`"ttlSeconds" must be above 0 and at most ${MAX_TTL_SECONDS}`)
      const ttlMs = Math.ceil(ttlSeconds * 1000)
      const digest = digestOf([value])
      const index = Buffer.from(digest, 'base64url')[0]! % count
      const group = groups[index] as Group
      const key = `${keys.group(`replay${index}`)}:used:${digest}`
      let answer = await ask(group, key, ttlMs)
      if (answer === -1) {
        group.generation = -1
        answer = await ask(group, key, ttlMs)
      }
      if (answer === 1) return true
      if (answer === 0) return false
      throw unavailable(answer === -2 ? 'the server has lost what was used; not long enough ago' : 'no answer')
    },
  }
}

function unavailable(reason: string): TrustError {
  return new TrustError('ERR_STORE_UNAVAILABLE', { details: { store: 'redis', reason } })
}
