/**
 * Passwords at rest: scrypt (RFC 7914) with a salt of its own for each, in the PHC string format
 * `$scrypt$ln=15,r=8,p=3$<salt>$<hash>`. The costs stand in the text, so that they can be raised one entry at a time, and
 * are bounded on both sides: a weak one would be no protection, a huge one would stop the process.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'

export interface PasswordHash {
  /** N is 2 to this. */
  readonly logN: number
  readonly r: number
  readonly p: number
  readonly salt: Buffer
  readonly hash: Buffer
}

const HASH_BYTES = 32
const SALT_BYTES = 16
/** 32 MiB for as long as OWASP asks (N=2^15, r=8, p=3). */
const COSTS = { logN: 15, r: 8, p: 3 } as const
/** N·r·p of the cheapest setting OWASP lists (N=2^14, r=8, p=5), and four times N=2^16, r=8, p=1. */
const LEAST_WORK = 2 ** 14 * 8 * 5
const MOST_WORK = 2 ** 16 * 8 * 4
/** 128·N·r: 64 MiB for each check that runs at the same time. */
const MOST_MEMORY = 64 * 1024 * 1024

const FORM = /^\$scrypt\$ln=([1-9]\d?),r=([1-9]\d?),p=([1-9]\d?)\$([A-Za-z0-9+/]{22,86})\$([A-Za-z0-9+/]{43})$/

/** The parts, or what is wrong, as the rest of a sentence. */
export function parsePasswordHash(text: string): PasswordHash | string {
  const match = FORM.exec(text)
  if (match === null) return 'must be $scrypt$ln=…,r=…,p=…$SALT$HASH (a2a-trust keys hash --password prints it)'
  const [logN, r, p] = match.slice(1, 4).map(Number) as [number, number, number]
  const [salt, hash] = [strictBase64(match[4] as string), strictBase64(match[5] as string)]
  if (salt === undefined || hash === undefined) return 'has a salt or hash that is not base64 without padding'
  if (logN > 20 || 128 * 2 ** logN * r > MOST_MEMORY) return 'needs more than 64 MiB for each check: lower ln or r'
  const work = 2 ** logN * r * p
  if (work < LEAST_WORK) return 'is too cheap to hold off guessing: use ln=15,r=8,p=3'
  return work > MOST_WORK ? 'costs too much for each check: use ln=15,r=8,p=3' : { logN, r, p, salt, hash }
}

/** A new entry for this password, at the present costs. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const hash = await derive(password, { ...COSTS, salt })
  const base64 = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '')
  return `$scrypt$ln=${COSTS.logN},r=${COSTS.r},p=${COSTS.p}$${base64(salt)}$${base64(hash)}`
}

/** Takes as long whatever the answer is. Rejects only for a fault (no memory). */
export async function isPassword(password: string, stored: PasswordHash): Promise<boolean> {
  return timingSafeEqual(await derive(password, stored), stored.hash)
}

function derive(password: string, { logN, r, p, salt }: Omit<PasswordHash, 'hash'>): Promise<Buffer> {
  const N = 2 ** logN
  return new Promise((resolve, reject) => {
    // Node counts a little more than 128·N·r, so the bound is set above it.
    scrypt(password, salt, HASH_BYTES, { N, r, p, maxmem: 2 * 128 * N * r + 128 * r * p }, (fault, key) =>
      fault === null ? resolve(key) : reject(fault),
    )
  })
}

function strictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64').replace(/=+$/, '') === text ? bytes : undefined
}
