// Package toyspec reads and writes training logs in JSON Lines: the profiles toy/v1, metrics/v1 and kaun/v1.
//
// A record is committed by its line feed. Reading gives every committed record with its raw line, and a report
// that accounts for every byte; writing hands each record over in one write, in canonical form.
package toyspec
