package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// Path is where all hooks are.
	Path = "/api/v1/webhooks/"
	// MaxBody bounds a payload, in bytes: some ten thousand alerts.
	MaxBody = 4 << 20
	// maxAtOnce bounds how many payloads are in memory, patience how long another
	// one waits for its turn, storeTime how long storing a payload may take.
	maxAtOnce = 4
	patience  = 10 * time.Second
	storeTime = 45 * time.Second
	// maxError bounds the text of a sender's mistake in the list of sources.
	maxError = 512
)

// Local serves this machine: hooks without a token are open to it.
func (h *Hooks) Local() *http.ServeMux { return h.newHandler(false) }

// Public serves other machines: hooks without a token do not exist for them, and
// who does not show a token learns nothing.
func (h *Hooks) Public() *http.ServeMux { return h.newHandler(true) }

func (h *Hooks) newHandler(public bool) *http.ServeMux {
	mux := http.NewServeMux()
	serve := func(find func(r *http.Request) *endpoint) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			e := find(r)
			switch {
			case e == nil && !public:
				writeRefusal(w, http.StatusNotFound, nightcrier.NotFound, "no such cluster or webhook is configured")
			case e == nil || !e.isAdmitted(r, public):
				if e != nil {
					e.noteReceived(h.cfg.Now(), 0, "somebody posted without a token, or with a wrong one, and was refused")
				}
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
			default:
				h.receivePayload(w, r, e)
			}
		}
	}
	mux.HandleFunc("POST "+Path+"alertmanager/{cluster}", serve(func(r *http.Request) *endpoint { return h.alerts[r.PathValue("cluster")] }))
	mux.HandleFunc("POST "+Path+"{name}", serve(func(r *http.Request) *endpoint { return h.named[r.PathValue("name")] }))
	return mux
}

// isAdmitted compares the sender's token in constant time. A token in the address is
// not looked at: addresses end in logs.
func (e *endpoint) isAdmitted(r *http.Request, public bool) bool {
	if e.token == "" {
		return !public
	}
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(shown))), sha256.Sum256([]byte(e.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// receivePayload takes one payload in.
func (h *Hooks) receivePayload(w http.ResponseWriter, r *http.Request, e *endpoint) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		writeRefusal(w, http.StatusUnsupportedMediaType, nightcrier.Invalid, "post plain application/json")
		return
	}
	release, ok := h.awaitTurn(r.Context())
	if !ok {
		w.Header().Set("Retry-After", "5")
		writeRefusal(w, http.StatusServiceUnavailable, nightcrier.Exhausted, "too many payloads at once; send it again")
		return
	}
	defer release()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		h.storeAndAnswer(w, r, e, unreadableBatch(e.name, e.cluster.Name, body[:min(len(body), headSize)], nightcrier.Errorf(nightcrier.Exhausted, "the payload is larger than %d bytes", MaxBody)))
	case err != nil:
		writeRefusal(w, http.StatusBadRequest, nightcrier.Interrupted, "the payload did not arrive in full")
	default:
		h.storeAndAnswer(w, r, e, e.read(r.Context(), body))
	}
}

// awaitTurn waits until a payload may be read, or the sender must come again.
func (h *Hooks) awaitTurn(ctx context.Context) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, true
	case <-ctx.Done():
		return nil, false
	}
}

// storeAndAnswer stores what a payload holds, then says so.
func (h *Hooks) storeAndAnswer(w http.ResponseWriter, r *http.Request, e *endpoint, b batch) {
	stored, err := h.storeDeliveries(r.Context(), b.deliveries)
	e.noteReceived(h.cfg.Now(), stored.Received, problemOf(b))
	if p := problemOf(b); p != "" {
		h.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, "a webhook's payload lacks something", slog.String("event", "webhook_payload"),
			slog.String("webhook", e.name), slog.String("cluster", e.cluster.Name), slog.String("detail", p))
	}
	switch {
	case err != nil:
		h.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "alerts could not be stored; their sender is asked to send them again", slog.String("event", "webhook_not_stored"),
			slog.String("webhook", e.name), slog.Int("stored", stored.Received), slog.Int("of", len(b.deliveries)), slog.Any("error", err))
		w.Header().Set("Retry-After", "5")
		writeRefusal(w, http.StatusServiceUnavailable, nightcrier.Unreachable, fmt.Sprintf("stored %d of %d; send it again", stored.Received, len(b.deliveries)))
	case nightcrier.CodeOf(b.problem) == nightcrier.Exhausted:
		writeRefusal(w, http.StatusRequestEntityTooLarge, nightcrier.Exhausted, b.problem.Error())
	case b.problem != nil:
		writeRefusal(w, http.StatusBadRequest, nightcrier.Invalid, b.problem.Error())
	default:
		writeJSON(w, http.StatusOK, "application/json", stored)
	}
}

func problemOf(b batch) string {
	if b.problem != nil {
		return text.CutLine(b.problem.Error(), maxError)
	}
	return b.lacking
}

// Stored is the answer to a payload: how many events it holds, and what became of
// them.
type Stored struct {
	Received   int `json:"received"`
	Opened     int `json:"opened"`
	Joined     int `json:"joined"`
	Suppressed int `json:"suppressed"`
	Repeated   int `json:"repeated"`
}

// storeDeliveries delivers all that can be stored: one that cannot does not hold up the
// others. Without time left none is tried.
func (h *Hooks) storeDeliveries(ctx context.Context, list []nightcrier.Delivery) (s Stored, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	now := h.cfg.Now()
	for _, d := range list {
		if ctx.Err() != nil {
			return s, errors.Join(err, ctx.Err())
		}
		d.ReceivedAt = now
		outcome, repeated, failed := h.cfg.Deliver(ctx, d)
		if failed != nil {
			err = failed // they fail for one reason
			continue
		}
		s.Received++
		switch {
		case repeated:
			s.Repeated++
		case outcome == nightcrier.Opened:
			s.Opened++
		case outcome == nightcrier.Joined:
			s.Joined++
		default:
			s.Suppressed++
		}
	}
	return s, err
}

// writeRefusal answers with a problem as all of the API's are (RFC 9457).
func writeRefusal(w http.ResponseWriter, status int, code nightcrier.Code, detail string) {
	writeJSON(w, status, "application/problem+json", map[string]any{"title": http.StatusText(status), "status": status, "code": code, "detail": detail})
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a sender that is gone cannot be told
}
