import { scryptSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { hashPassword, isPassword, type PasswordHash, parsePasswordHash } from '../../src/internal/password-hash.ts'
import { createWorkQueue } from '../../src/internal/work-queue.ts'

const SALT = Buffer.alloc(16, 7)
const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '')
const text = (costs: string, salt = base64(SALT), hash = base64(Buffer.alloc(32, 1))) =>
  `$scrypt$${costs}$${salt}$${hash}`

describe('a stored password', { timeout: 60_000 }, () => {
  it('is what scrypt of RFC 7914 makes of password, salt and costs, and has a salt of its own', async () => {
    const [one, two] = [await hashPassword('correct horse battery'), await hashPassword('correct horse battery')]
    expect(one).not.toBe(two)
    const stored = parsePasswordHash(one) as PasswordHash
    const { salt, hash, logN, r, p } = stored
    expect(salt.length).toBe(16)
    expect(hash).toEqual(
      scryptSync('correct horse battery', salt, 32, { N: 2 ** logN, r, p, maxmem: 128 * 1024 * 1024 }),
    )
    expect(await isPassword('correct horse battery', stored)).toBe(true)
    expect(await isPassword('correct horse batterx', stored)).toBe(false)
  })

  it.each([['ln=14,r=8,p=5'], ['ln=15,r=8,p=3'], ['ln=16,r=8,p=4']])('%s is within the bounds', (costs) => {
    expect(parsePasswordHash(text(costs))).toMatchObject({ salt: SALT })
  })

  it.each([
    ['too cheap', text('ln=14,r=8,p=1')],
    ['too cheap', text('ln=1,r=1,p=1')],
    ['64 MiB', text('ln=17,r=8,p=1')],
    ['64 MiB', text('ln=99,r=1,p=1')],
    ['too much', text('ln=16,r=8,p=5')],
    ['must be', text('ln=015,r=8,p=3')],
    ['must be', text('r=8,ln=15,p=3')],
    ['must be', text('ln=15,r=8,p=3', 'c2FsdA')],
    ['must be', text('ln=15,r=8,p=3', base64(SALT), base64(Buffer.alloc(16, 1)))],
    ['must be', `${text('ln=15,r=8,p=3')}\n`],
    ['must be', text('ln=15,r=8,p=3').replace('scrypt', 'argon2id')],
    ['not base64', text('ln=15,r=8,p=3', `${base64(SALT).slice(0, -1)}x`)],
    ['must be', ''],
  ])('is refused: %s: %s', (why, broken) => {
    expect(parsePasswordHash(broken)).toContain(why)
  })
})

describe('a work queue', () => {
  it('runs so many at once, keeps so many waiting, refuses the next, and goes on after a failure', async () => {
    const queue = createWorkQueue({ atOnce: 2, waiting: 1 })
    const ends: { resolve: (value: string) => void; reject: (fault: Error) => void }[] = []
    const work = () => new Promise<string>((resolve, reject) => ends.push({ resolve, reject }))
    const [one, two, three] = [queue.run(work), queue.run(work), queue.run(work)]
    expect(queue.run(work)).toBeUndefined()
    expect(ends.length).toBe(2)
    ends[0]?.reject(new Error('one'))
    await expect(one).rejects.toThrow('one')
    expect(ends.length).toBe(3)
    ends[1]?.resolve('two')
    ends[2]?.resolve('three')
    expect(await Promise.all([two, three])).toEqual(['two', 'three'])
    expect(queue.run(async () => 'four')).toBeDefined()
  })
})
