import { describe, expect, it } from 'vitest'
import { normalizeHttpUri } from '../../src/internal/http-uri.ts'

describe('normalizeHttpUri', () => {
  it.each([
    ['https://h.example', 'https://h.example/'],
    ['HTTPS://H.Example:443/', 'https://h.example/'],
    ['http://h.example:80/a', 'http://h.example/a'],
    ['http://h.example:443/a', 'http://h.example:443/a'],
    ['https://h.example/A/b', 'https://h.example/A/b'],
    ['https://h.example/a/./b/../c', 'https://h.example/a/c'],
    ['https://h.example/a/%2e%2E/c', 'https://h.example/c'],
    ['https://h.example/%7Ea%2f%c3%a4', 'https://h.example/~a%2F%C3%A4'],
    ['https://h.example/%2561', 'https://h.example/%2561'],
    ['https://h.example/a?b#c', 'https://h.example/a'],
    ['https://h.example//a/', 'https://h.example//a/'],
    ['https://[2001:DB8::1]:8443/a', 'https://[2001:db8::1]:8443/a'],
  ])('%s is %s', (text, normal) => {
    expect(normalizeHttpUri(text)).toBe(normal)
    expect(normalizeHttpUri(normal)).toBe(normal)
  })

  it.each([
    '',
    '/a',
    '//h.example/a',
    'https:/h.example/a',
    'https:h.example',
    'https://',
    'ftp://h.example/',
    'javascript://h.example/',
    'https://u@h.example/',
    'https://u:p@h.example/',
    ' https://h.example/',
    'https://h.example/ ',
    'https://h.example/\n',
    'https://h.example/a\\b',
    'https://h.example\\@other.example/',
    'https://h.example/%',
    'https://h.example/%4',
    'https://h.example/%zz',
    'https://h.example/ä',
    'https://hä.example/',
    'https://h.example/"',
    'https://h.example:99999/',
    `https://h.example/${'a'.repeat(9000)}`,
  ])('%j is none', (text) => {
    expect(normalizeHttpUri(text)).toBeUndefined()
  })
})
