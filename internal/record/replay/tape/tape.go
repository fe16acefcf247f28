// Package tape is how the parts of a run ask what is outside of it, so that the run can
// be recorded and made again from the record. It names the call alone: package replay
// records and plays.
package tape

// Take puts one question to something outside of the run: a tool server, a cluster, a
// clock. Whoever asks does not know which of these it was given:
//
//   - recording, ask is called, and the answer or the error is kept under name;
//   - replaying, into is filled with the answer that was kept under name, or the error
//     that was kept is returned. ask is not called then, so nobody is reached. What
//     happens to a question that was not recorded is the player's to say;
//   - Live, ask is called and nothing is kept.
//
// ask stores its answer in what into points at: a []byte, or what JSON can hold. Answers
// to questions of the same name are told apart by their order.
type Take func(name string, into any, ask func() error) error

// Live is a Take of a run that is neither recorded nor replayed.
func Live(_ string, _ any, ask func() error) error { return ask() }
