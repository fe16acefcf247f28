package replay

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/record/audit"
)

// Parts are what is recorded of the cluster itself: the objects, lists and logs that we
// read, as the tapes have them, and those that an agent was given.
func (r *Record) Parts() snapshot.Parts {
	var p parts
	for _, step := range []string{Prepare, Test} {
		if tape, err := r.Tape(step); err == nil {
			tape.eachBody(p.ofTape)
		}
	}
	r.eachAnswer(func(a audit.Record, body []byte, own bool) {
		if !own && a.Status == 200 && a.Verb != "watch" {
			p.ofAgent(a, body)
		}
	})
	return p.Parts
}

// eachBody calls fn for what stands on the tape, by its question.
func (p *Player) eachBody(fn func(ask string, body []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ask := range slices.Sorted(maps.Keys(p.entries)) {
		for _, e := range p.entries[ask] {
			if e.Error == nil && !e.Dropped && e.Text != nil {
				fn(ask, []byte(*e.Text))
			}
		}
	}
}

type parts struct{ snapshot.Parts }

// ofTape takes an answer to a question of the diagnosis.
func (p *parts) ofTape(ask string, body []byte) {
	words := wordsOf(ask)
	switch {
	case len(words) == 5 && words[0] == "get":
		p.addObject(body, words[2], snapshot.Listed{})
	case len(words) == 6 && words[0] == "list":
		p.addObject(body, words[1], snapshot.Listed{Namespace: words[2], Labels: words[3], Selection: words[4]})
	case len(words) == 7 && words[0] == "logs":
		p.Logs = append(p.Logs, snapshot.Log{Namespace: words[1], Pod: words[2], Container: words[3], Previous: words[4] == "true", Text: body})
	}
}

// ofAgent takes an answer to a request of an agent.
func (p *parts) ofAgent(a audit.Record, body []byte) {
	q, err := url.ParseQuery(a.Query)
	switch {
	case err != nil || a.Resource == "" || q.Get("continue") != "":
	case a.Resource == "pods" && a.Subresource == "log" && q.Get("container") != "":
		p.Logs = append(p.Logs, snapshot.Log{Namespace: a.Namespace, Pod: a.Name, Container: q.Get("container"), Previous: q.Get("previous") == "true", Text: body})
	case a.Subresource == "":
		p.addObject(body, "", snapshot.Listed{Namespace: a.Namespace, Labels: q.Get("labelSelector"), Selection: q.Get("fieldSelector")})
	}
}

// addObject takes an object, or a list as which it was read. What is a table, or no object
// at all, is left out. Kind is what was asked for, where that is known: of Secrets only
// the metadata is read.
func (p *parts) addObject(body []byte, kind string, as snapshot.Listed) {
	var doc struct {
		APIVersion, Kind string
		Metadata         struct{ Continue string }
	}
	if json.Unmarshal(body, &doc) != nil || doc.Kind == "" || doc.Kind == "Table" {
		return
	}
	if strings.HasPrefix(doc.Kind, "PartialObjectMetadata") {
		if kind != "Secret" {
			return
		}
		if body = secretOf(body); body == nil {
			return
		}
		doc.APIVersion, doc.Kind = "v1", "Secret"+strings.TrimPrefix(doc.Kind, "PartialObjectMetadata")
	}
	p.Objects = append(p.Objects, body)
	item, isList := strings.CutSuffix(doc.Kind, "List")
	if isList && doc.Metadata.Continue == "" {
		as.APIVersion, as.Kind = doc.APIVersion, item
		p.Lists = append(p.Lists, as)
	}
}

// secretOf makes of the metadata of a Secret, or of several, what they are of.
func secretOf(body []byte) []byte {
	var doc map[string]any
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	items, isList := doc["items"].([]any)
	doc["apiVersion"], doc["kind"] = "v1", "Secret"
	if isList {
		doc["kind"] = "SecretList"
	}
	for _, it := range items {
		if one, ok := it.(map[string]any); ok {
			one["apiVersion"], one["kind"] = "v1", "Secret"
		}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil
	}
	return raw
}

// wordsOf takes a Name apart; nil for what is none.
func wordsOf(name string) (words []string) {
	for name != "" {
		quoted, err := strconv.QuotedPrefix(name)
		if err != nil {
			return nil
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil
		}
		words, name = append(words, word), strings.TrimPrefix(name[len(quoted):], " ")
	}
	return words
}
