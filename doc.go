// Package nightcrier holds the nouns of the product and their legal
// transitions: events, incidents, runs, journal entries, reports, and the
// reasons and errors that every other package speaks of.
//
// It imports only the standard library and nothing of this module, so that
// every other package can import it.
package nightcrier
