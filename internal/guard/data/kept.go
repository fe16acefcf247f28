package data

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
)

// Moment is when a caller asks, with these arguments: what it calls now. In a run that is
// made again it is when the same was asked then, so that the same questions come of it.
func (g *Guard) Moment(system string, arguments any) (at time.Time, err error) {
	raw, err := json.Marshal(arguments)
	if err != nil {
		return at, nightcrier.Errorf(nightcrier.Internal, "%s: %w", system, err)
	}
	err = g.cfg.Take(fmt.Sprintf("%q %q", system, g.cfg.Mask(raw)), &at, func() error {
		at = g.cfg.Now().UTC().Round(0) // as it will be read
		return nil
	})
	return at, err
}

// askedTime is what counts as now in a question.
func (g *Guard) askedTime(at time.Time) time.Time {
	if at.IsZero() {
		return g.cfg.Now()
	}
	return at
}

// reply is what came of a question: an answer, masked, or the words of why there was
// none, with a code.
type reply struct {
	status int
	bytes  int64
	code   nightcrier.Code
	text   []byte
}

// fetchReply sends a question, or takes what was kept of it.
func (g *Guard) fetchReply(ctx context.Context, q question) (reply, error) {
	var kept []byte
	err := g.cfg.Take(fmt.Sprintf("%q %q %q", q.system.name, q.path, g.cfg.Mask([]byte(q.options.Encode()))), &kept, func() error {
		status, body, err := g.sendWidened(ctx, q)
		if err != nil && errors.Is(ctx.Err(), context.Canceled) {
			return nightcrier.Errorf(nightcrier.Interrupted, "%s: %w", q.system.name, ctx.Err()) // which is no answer
		}
		if q.label != "" {
			body = besideName(body, q.label)
		}
		r := reply{status: status, bytes: int64(len(body)), text: bytes.ToValidUTF8(g.maskAnswer(q, body), []byte("\uFFFD"))}
		if err != nil {
			r.code, r.text = nightcrier.CodeOf(err), []byte(err.Error())
		}
		kept = r.encode()
		return nil
	})
	if err != nil {
		return reply{}, err
	}
	r, err := decodeReply(kept)
	if err == nil && r.code != "" {
		err = nightcrier.Errorf(r.code, "%s", r.text)
	}
	r.text = g.cfg.Mask(r.text)
	return r, err
}

// encode writes a reply as a line of its own before the text, which is masked as what it
// is then.
func (r reply) encode() []byte {
	return append(fmt.Appendf(nil, "%d %d %s\n", r.status, r.bytes, r.code), r.text...)
}

// decodeReply reads what encode wrote. It may have been kept by anybody.
func decodeReply(kept []byte) (r reply, err error) {
	line, text, ok := bytes.Cut(kept, []byte("\n"))
	n, _ := fmt.Sscanf(string(line), "%d %d %s", &r.status, &r.bytes, &r.code)
	if r.text = text; !ok || n < 2 || len(text) > 2*maxBody {
		return reply{}, nightcrier.Errorf(nightcrier.Invalid, "what was kept of an answer cannot be read")
	}
	return r, nil
}
