package run

import (
	"fmt"
	"testing"
)

// BenchmarkOwnStep is what a step of ours costs beside what it does: its checkpoint, its rows, its
// entry in the journal and the conditions.
func BenchmarkOwnStep(b *testing.B) {
	s := &site{dir: b.TempDir()}
	if err := s.open(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer s.close()
	file := steps("")
	for i := range b.N {
		if i == 1000 { // no pipeline has more
			break
		}
		file += fmt.Sprintf("  - {id: s%d, agent_id: s%d, action: collect, if: input.n > 1}\n", i, i)
	}
	for done := 0; done < b.N; done += 1000 {
		b.StopTimer()
		o, err := s.admit(b.Context(), file, `{"n": 3}`)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err = s.engine.Start(Workflow, o.RunID, o); err == nil {
			_, err = s.await(b.Context(), o.RunID)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
