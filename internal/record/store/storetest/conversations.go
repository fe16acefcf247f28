package storetest

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// askQuestion asks in the conversation of these tests.
func (b *bench) askQuestion(t *testing.T, text string) (nightcrier.Question, error) {
	t.Helper()
	q, _, err := b.AskQuestion(t.Context(), nightcrier.Conversation{ID: "c", IncidentID: "i"}, nightcrier.Question{Text: text, By: "ann"},
		store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectConversation, ID: "c"}, Pipeline: "skill:sre/incident-answer", Executor: "codex", Severity: nightcrier.ErrorSeverity})
	return q, err
}

func (b *bench) readConversation(t *testing.T) nightcrier.Conversation {
	t.Helper()
	c, err := b.Conversation(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A question and the run that answers it are there together; one is open at a time, and what was
// answered first stays.
func questionLife(t *testing.T, b *bench) {
	_, err := b.Conversation(t.Context(), "c")
	wantCode(t, err, nightcrier.NotFound)
	q, err := b.askQuestion(t, "why is it slow?")
	if err != nil || q.Seq != 1 || !q.Open() || b.readRun(t, q.RunID).Subject.ID != "c" {
		t.Fatalf("%+v, %v", q, err)
	}
	_, err = b.askQuestion(t, "and now?")
	wantCode(t, err, nightcrier.Conflict)
	if n := b.readCounts(t).Queued; n != 1 {
		t.Errorf("%d runs are queued: a question that was refused has left one", n)
	}
	b.clock.Advance(time.Minute)
	q.Answer, q.Evidence = "because of \x00 E3", []string{"E3"}
	if err := b.AnswerQuestion(t.Context(), "c", q); err != nil {
		t.Fatal(err)
	}
	q.Answer = "another"
	if err := b.AnswerQuestion(t.Context(), "c", q); err != nil {
		t.Fatal(err)
	}
	if _, err = b.askQuestion(t, "and now?"); err != nil {
		t.Fatal(err)
	}
	c := b.readConversation(t)
	if c.IncidentID != "i" || c.Title != "why is it slow?" || !c.UpdatedAt.Equal(b.clock.Now()) || len(c.Questions) != 2 {
		t.Fatalf("%+v", c)
	}
	if first := c.Questions[0]; first.Answer != "because of \x00 E3" || !first.AnsweredAt.Equal(b.clock.Now()) || c.Questions[1].Seq != 2 || !c.Questions[1].Open() {
		t.Errorf("%+v", c.Questions)
	}
}

// A conversation takes so many questions, and goes with the retention once none is open.
func questionBounds(t *testing.T, b *bench) {
	for range nightcrier.MaxQuestions {
		q, err := b.askQuestion(t, "again?")
		if err == nil {
			err = b.AnswerQuestion(t.Context(), "c", q)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.askQuestion(t, "once more?")
	wantCode(t, err, nightcrier.Exhausted)
	if _, err := b.Prune(t.Context(), b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	b.readConversation(t)
	if _, err := b.Prune(t.Context(), b.clock.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = b.Conversation(t.Context(), "c")
	wantCode(t, err, nightcrier.NotFound)
	if _, err := b.askQuestion(t, "a new one?"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Prune(t.Context(), b.clock.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	b.readConversation(t) // its question is open
}
