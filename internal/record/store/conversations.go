package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxTitle bounds the title of a conversation, which is its first question, in bytes.
const maxTitle = 100

// AskQuestion adds a question to a conversation, which it begins, and queues the run that answers
// it, in one transaction. One question is open at a time: another is a Conflict. A conversation
// with as many as it takes is Exhausted.
func (s *Store) AskQuestion(ctx context.Context, c nightcrier.Conversation, q nightcrier.Question, n NewRun) (nightcrier.Question, Enqueued, error) {
	var e Enqueued
	if err := n.check(); err != nil {
		return q, e, err
	}
	err := s.writeTransaction(ctx, "ask a question", func(t *tx) error {
		if _, err := t.execStatement(`INSERT INTO conversations (id, incident_id, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at`,
			c.ID, c.IncidentID, text.CutLine(q.Text, maxTitle), toMicros(t.now), toMicros(t.now)); err != nil {
			return err
		}
		var have, open int
		if err := t.queryRow(`SELECT COUNT(*), COALESCE(SUM(CASE WHEN answered_at = 0 THEN 1 ELSE 0 END), 0) FROM questions WHERE conversation_id = ?`, c.ID).Scan(&have, &open); err != nil {
			return err
		}
		switch {
		case open > 0:
			return nightcrier.Errorf(nightcrier.Conflict, "a question of conversation %s is being answered: wait for its answer, or cancel its run", c.ID)
		case have >= nightcrier.MaxQuestions:
			return nightcrier.Errorf(nightcrier.Exhausted, "conversation %s has %d questions, and takes no more", c.ID, have)
		}
		var err error
		if e, err = t.enqueueRun(n); err != nil {
			return err
		}
		q.Seq, q.RunID, q.At, q.AnsweredAt = have+1, e.Run.ID, t.now, time.Time{}
		doc, err := encodeDoc(q)
		if err != nil {
			return err
		}
		_, err = t.execStatement(`INSERT INTO questions (conversation_id, seq, run_id, answered_at, doc) VALUES (?, ?, ?, 0, ?)`, c.ID, q.Seq, q.RunID, doc)
		return err
	})
	return q, e, err
}

// AnswerQuestion keeps the answer to a question that is open. It may be told again: what was kept
// first stays.
func (s *Store) AnswerQuestion(ctx context.Context, conversation string, q nightcrier.Question) error {
	return s.writeTransaction(ctx, "answer a question", func(t *tx) error {
		q.AnsweredAt = t.now
		doc, err := encodeDoc(q)
		if err != nil {
			return err
		}
		_, err = t.execStatement(`UPDATE questions SET answered_at = ?, doc = ? WHERE conversation_id = ? AND seq = ? AND answered_at = 0`,
			toMicros(t.now), doc, conversation, q.Seq)
		return err
	})
}

// Conversation returns a conversation with its questions, oldest first.
func (s *Store) Conversation(ctx context.Context, id string) (nightcrier.Conversation, error) {
	c := s.readConn(ctx)
	conv := nightcrier.Conversation{ID: id, Questions: []nightcrier.Question{}}
	var created, updated int64
	err := c.queryRow(`SELECT incident_id, title, created_at, updated_at FROM conversations WHERE id = ?`, id).Scan(&conv.IncidentID, &conv.Title, &created, &updated)
	if err != nil {
		return conv, s.wrapError("read a conversation", orNotFound(err, "conversation", id))
	}
	conv.CreatedAt, conv.UpdatedAt = fromMicros(created), fromMicros(updated)
	err = c.eachRow(func(rows *sql.Rows) error {
		var doc string
		if err := rows.Scan(&doc); err != nil {
			return err
		}
		var q nightcrier.Question
		err := json.Unmarshal([]byte(doc), &q)
		conv.Questions = append(conv.Questions, q)
		return err
	}, `SELECT doc FROM questions WHERE conversation_id = ? ORDER BY seq`, id)
	return conv, s.wrapError("read a conversation", err)
}
