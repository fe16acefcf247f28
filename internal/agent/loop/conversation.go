package loop

import (
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
)

// turn is one message of a conversation: what the model said, or what it was told.
type turn struct {
	// Said is the model's, in the words of its API.
	Said json.RawMessage `json:"said,omitempty"`
	// Results and Asked are ours.
	Results []result `json:"results,omitempty"`
	Asked   string   `json:"asked,omitempty"`
}

// result is what came of a call.
type result struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// conversation is what was said so far.
type conversation struct{ history []turn }

// ask tells the model something.
func (c *conversation) ask(text string) {
	if n := len(c.history); n > 0 && c.history[n-1].Said == nil {
		last := &c.history[n-1]
		last.Asked = strings.TrimLeft(last.Asked+"\n\n"+text, "\n")
		return
	}
	c.history = append(c.history, turn{Asked: text})
}

// say adds what the model said; nothing is no message.
func (c *conversation) say(a answer) {
	if a.said != nil {
		c.history = append(c.history, turn{Said: a.said})
	}
}

// answerCalls adds what came of calls.
func (c *conversation) answerCalls(results []result) {
	c.history = append(c.history, turn{Results: results})
}

// countBytes counts what the conversation has.
func (c *conversation) countBytes() (n int) {
	for _, t := range c.history {
		n += len(t.Said) + len(t.Asked)
		for _, r := range t.Results {
			n += len(r.Text)
		}
	}
	return n
}

// saved is a conversation as it is kept.
type saved struct {
	Provider nightcrier.Provider `json:"provider"`
	History  []turn              `json:"history"`
}

func (c *conversation) save(p nightcrier.Provider) []byte {
	raw, err := json.Marshal(saved{p, c.history})
	if err != nil {
		return nil // and cannot be gone on with
	}
	return raw
}

// restore takes up a conversation that was saved; nil begins a new one.
func (c *conversation) restore(p nightcrier.Provider, raw []byte) error {
	if raw == nil {
		return nil
	}
	var s saved
	if err := json.Unmarshal(raw, &s); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the earlier conversation cannot be read: %w", err)
	}
	if s.Provider != p {
		return nightcrier.Errorf(nightcrier.Invalid, "the earlier conversation was one of %s, and cannot go on with %s", s.Provider, p)
	}
	c.history = s.History
	return nil
}
