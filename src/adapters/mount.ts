/** Where hosts give adapters the whole path: the part the guarded routes share. */

/** Throws `TypeError` for what is no path; '' is none. */
export function checkMount(mount: string): void {
  if (mount !== '' && !/^\/[^?#]*[^/?#]$/.test(mount)) throw new TypeError('"mount" must be a path such as /a2a')
}

/** The target as mounted middleware would see it; what does not lie below the mount stays as it is. */
export function below(mount: string, target: string): string {
  const rest = target.slice(mount.length)
  return target.startsWith(mount) && /^(?:[/?]|$)/.test(rest) ? rest || '/' : target
}
