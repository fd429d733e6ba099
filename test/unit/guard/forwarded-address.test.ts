import { describe, expect, it } from 'vitest'
import { addressSet } from '../../../src/egress/address.ts'
import { forwardedAddress, plainAddress } from '../../../src/guard/forwarded-address.ts'

const trusted = addressSet(['10.0.0.0/8', 'fd00::/8'])
const PEER = '10.0.0.1'
const walk = (header: 'x-forwarded-for' | 'forwarded', ...lines: string[]) =>
  forwardedAddress(header, lines, PEER, trusted)

describe('x-forwarded-for', () => {
  it.each<[string, string[], string]>([
    ['nothing', [], PEER],
    ['the nearest hop', ['203.0.113.5'], '203.0.113.5'],
    ['what a caller wrote in front is not looked at', ['1.1.1.1, 203.0.113.5'], '203.0.113.5'],
    ['garbage in front neither', ['x"y, 203.0.113.5'], '203.0.113.5'],
    ['past trusted hops', ['1.1.1.1, 203.0.113.5, 10.2.3.4,10.9.9.9'], '203.0.113.5'],
    ['all trusted: the farthest', ['10.2.2.2, 10.3.3.3'], '10.2.2.2'],
    ['lines in order', ['1.1.1.1', '203.0.113.5, 10.2.3.4'], '203.0.113.5'],
    ['a port', ['203.0.113.5:4711'], '203.0.113.5'],
    ['IPv6', ['2001:DB8::0:5'], '2001:db8::5'],
    ['IPv6 in brackets with a port', ['[2001:db8::5]:4711'], '2001:db8::5'],
    ['IPv4 inside IPv6 is IPv4', ['203.0.113.5, ::ffff:10.0.0.7'], '203.0.113.5'],
    ['a hop that is no address ends at the one that named it', ['1.1.1.1, unknown, 10.2.3.4'], '10.2.3.4'],
    ['an empty hop', ['203.0.113.5,'], PEER],
    ['an empty line', [''], PEER],
    ['octal', ['203.0.113.05'], PEER],
    ['short', ['203.1'], PEER],
    ['a zone', ['fe80::1%eth0'], PEER],
    ['IPv4 in brackets', ['[203.0.113.5]'], PEER],
    ['a name', ['localhost'], PEER],
    ['two addresses', ['203.0.113.5 1.1.1.1'], PEER],
    ['a line end', ['203.0.113.5\n'], PEER],
    ['a caller who fills the line does not hide', [`${'1.1.1.1,'.repeat(1125)}203.0.113.5`], '203.0.113.5'],
    ['nor behind one long hop', [`${'1'.repeat(9000)},203.0.113.5, 10.2.3.4`], '203.0.113.5'],
    ['and what is cut off names nobody', [`11111.1.1.1    ${',10.2.3.4'.repeat(909)}`], '10.2.3.4'],
  ])('%s', (_, lines, expected) => expect(walk('x-forwarded-for', ...lines)).toBe(expected))
})

describe('forwarded', () => {
  it.each<[string, string[], string]>([
    ['the nearest hop', ['for=203.0.113.5;proto=https'], '203.0.113.5'],
    ['in quotes with a port', ['for="203.0.113.5:80"'], '203.0.113.5'],
    ['IPv6', ['For="[2001:db8::5]:4711"'], '2001:db8::5'],
    ['past trusted hops', ['for=1.1.1.1, for=203.0.113.5;by=10.0.0.9 , for="10.2.3.4"'], '203.0.113.5'],
    ['unknown', ['for=1.1.1.1, for=unknown'], PEER],
    ['hidden', ['for=1.1.1.1, for=_hidden'], PEER],
    ['without for', ['for=1.1.1.1, proto=https'], PEER],
    ['for twice', ['for=1.1.1.1;for=203.0.113.5'], PEER],
    ['a quote that a caller opened swallows nothing', ['for=", for=203.0.113.5'], PEER],
    ['and closes in another', ['for=", for="203.0.113.5"'], PEER],
    ['on a line of its own it spoils only that', ['for="', 'for=203.0.113.5'], '203.0.113.5'],
    ['an escape', ['for="203.0.113\\.5"'], '203.0.113.5'],
    ['not the syntax', ['203.0.113.5'], PEER],
    ['an empty element', ['for=203.0.113.5,'], PEER],
  ])('%s', (_, lines, expected) => expect(walk('forwarded', ...lines)).toBe(expected))
})

it('a peer that is no proxy stays the caller', () => {
  expect(forwardedAddress('x-forwarded-for', ['203.0.113.5'], '192.0.2.1', trusted)).toBe('192.0.2.1')
})

it('addresses have one spelling', () => {
  expect(['::ffff:10.0.0.1', '::FFFF:A00:1', '10.0.0.1', '10.1', 'x', undefined].map(plainAddress)).toEqual([
    '10.0.0.1',
    '10.0.0.1',
    '10.0.0.1',
    undefined,
    undefined,
    undefined,
  ])
})
