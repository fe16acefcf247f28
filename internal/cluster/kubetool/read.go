package kubetool

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"nightcrier.dev/nightcrier"
)

// What is asked for. A server that cannot make a table answers with a list.
const (
	acceptJSON     = "application/json"
	acceptTable    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	acceptMeta     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	acceptMetaList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// Bounds of one answer, in bytes.
const (
	maxObject = 4 << 20
	maxList   = 8 << 20
	maxLog    = 2 << 20
)

// query is one read.
type query struct {
	path   string
	values url.Values
	accept string
	max    int64
	kind   string // of evidence: object, list, log
}

// readRecorded reads JSON, strips, masks and records it, and returns what is left.
func (r *reading) readRecorded(ctx context.Context, q query) (any, error) {
	doc, err := r.readMasked(ctx, q)
	if err != nil {
		return nil, err
	}
	return doc, r.recordDoc(q, doc)
}

// readMasked is readRecorded for a caller that records what it takes of the answer. It is
// what happens to every JSON answer before anybody sees it.
func (r *reading) readMasked(ctx context.Context, q query) (any, error) {
	raw, err := r.askReader(ctx, q)
	if err != nil {
		return nil, err
	}
	doc, err := decodeJSON(raw)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "read %s: the answer is not JSON: %w", q.path, err)
	}
	stripDocument(doc)
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "read %s: encode: %w", q.path, err)
	}
	if doc, err = decodeJSON(r.set.cfg.Mask(body)); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "read %s: masking broke the JSON: %w", q.path, err)
	}
	return doc, nil
}

// askReader asks the reader, and notes the id of an answer that is kept already.
func (r *reading) askReader(ctx context.Context, q query) ([]byte, error) {
	citer, ok := r.set.cfg.Reader.(Citer)
	if !ok {
		return r.set.cfg.Reader.Read(ctx, q.path, q.values, q.accept, q.max)
	}
	raw, id, err := citer.Cite(ctx, q.path, q.values, q.accept, q.max)
	if id != "" {
		r.evidence = append(r.evidence, id)
	}
	return raw, err
}

func (r *reading) recordDoc(q query, doc any) error {
	if r.set.cfg.Evidence == nil {
		return nil
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "read %s: encode: %w", q.path, err)
	}
	return r.recordBody(q, body)
}

// convertInto fills a struct of the caller's.
func convertInto(doc, into any) error {
	body, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "the answer is not what its kind says: %w", err)
	}
	return nil
}

// readLog reads a text, masks and records it.
func (r *reading) readLog(ctx context.Context, q query) (string, error) {
	raw, err := r.askReader(ctx, q)
	if err != nil {
		return "", err
	}
	body := r.set.cfg.Mask(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	return string(body), r.recordBody(q, body)
}

// recordBody keeps what was read, when there is somebody to keep it.
func (r *reading) recordBody(q query, body []byte) error {
	if r.set.cfg.Evidence == nil {
		return nil
	}
	source := "GET " + q.path
	if len(q.values) > 0 {
		source += "?" + q.values.Encode()
	}
	id, err := r.set.cfg.Evidence.Record(q.kind, source, body)
	if err != nil {
		return err
	}
	r.evidence = append(r.evidence, id)
	return nil
}

// decodeJSON reads JSON with whole numbers kept whole.
func decodeJSON(raw []byte) (doc any, err error) {
	err = utiljson.Unmarshal(raw, &doc)
	return doc, err
}

// stripDocument takes out, at any depth, what nobody needs and what nobody may see:
// who manages which field, the copy of the manifest that kubectl leaves, and
// the data of Secrets.
func stripDocument(doc any) {
	switch v := doc.(type) {
	case []any:
		for _, e := range v {
			stripDocument(e)
		}
	case map[string]any:
		delete(v, "managedFields")
		if notes, ok := v["annotations"].(map[string]any); ok {
			delete(notes, "kubectl.kubernetes.io/last-applied-configuration")
		}
		if v["kind"] == "Secret" {
			delete(v, "data")
			delete(v, "stringData")
		}
		for _, e := range v {
			stripDocument(e)
		}
	}
}

// ValueAt walks down a document by keys; nil when there is nothing.
func ValueAt(doc any, keys ...string) any {
	for _, k := range keys {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[k]
	}
	return doc
}

// TextAt is ValueAt for a string.
func TextAt(doc any, keys ...string) string { s, _ := ValueAt(doc, keys...).(string); return s }

// ListAt is ValueAt for a list.
func ListAt(doc any, keys ...string) []any { l, _ := ValueAt(doc, keys...).([]any); return l }

// MapAt is ValueAt for a mapping.
func MapAt(doc any, keys ...string) map[string]any {
	m, _ := ValueAt(doc, keys...).(map[string]any)
	return m
}
