/** Lua that runs on the server, known there by its digest. */
import { createHash } from 'node:crypto'

export interface Script {
  readonly sha1: string
  readonly lua: string
}

export function script(lua: string): Script {
  return Object.freeze({ lua, sha1: createHash('sha1').update(lua).digest('hex') })
}

/** What a server drops to make room it answers for as if it had never been. */
export const REFUSE_EVICTION = `
local memory = redis.call('INFO', 'memory')
local policy = string.match(memory, 'maxmemory_policy:([%w%-]+)')
if string.match(memory, 'maxmemory:(%d+)') ~= '0' and policy ~= 'noeviction' then
  return redis.error_reply('EVICTION maxmemory-policy must be noeviction')
end`
