package nightcrier

import "time"

// Bounds of a conversation. A question is longer than that only by mistake.
const (
	MaxQuestion  = 2000 // bytes
	MaxQuestions = 100  // of one conversation
	MaxAnswer    = 16 << 10
)

// Conversation is what people ask, and are answered. That about an incident has the incident's id.
type Conversation struct {
	ID         string     `json:"conversationId"`
	IncidentID string     `json:"incidentId,omitempty"`
	Title      string     `json:"title,omitempty"`
	CreatedAt  time.Time  `json:"createdAt,omitzero"`
	UpdatedAt  time.Time  `json:"updatedAt,omitzero"`
	Questions  []Question `json:"questions"`
}

// Question is one question and its answer, which a run gives.
type Question struct {
	Seq   int       `json:"seq"`
	By    string    `json:"by,omitempty"`
	Text  string    `json:"question"`
	At    time.Time `json:"askedAt"`
	RunID string    `json:"runId"`
	// Answer is there once the run has succeeded, Failure once it has ended without success.
	Answer     string    `json:"answer,omitempty"`
	Failure    string    `json:"failure,omitempty"`
	AnsweredAt time.Time `json:"answeredAt,omitzero"`
	// Facts are those of the report that the answer cites, Evidence what was read for it.
	Facts    []string `json:"facts,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
	// Unknown are what it cites and nobody has.
	Unknown []string `json:"unknown,omitempty"`
}

// Open reports whether the question is still to be answered.
func (q Question) Open() bool { return q.AnsweredAt.IsZero() }
