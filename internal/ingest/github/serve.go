package github

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

const (
	// Path is where GitHub posts.
	Path = "/api/v1/webhooks/github"
	// MaxPayload bounds a payload, in bytes. GitHub sends up to 25 MB; those of pull requests and comments
	// have some ten thousand.
	MaxPayload = 2 << 20
	// maxAtOnce bounds how many payloads are in memory, patience how long another one waits for its
	// turn. GitHub gives up on an answer after ten seconds.
	maxAtOnce   = 4
	patience    = 2 * time.Second
	storeTime   = 5 * time.Second
	askTime     = 3 * time.Second
	maxDelivery = 100
)

// Config is what a Hook works with.
type Config struct {
	// Secret signs what GitHub sends. Without it everything is refused.
	Secret string
	// Drafts says that drafts are looked at, too.
	Drafts bool
	// Mention is the name by which comments speak to us.
	Mention string
	// Start has an event start what is for it, durably, or returns an error.
	Start func(context.Context, Event) (Started, error)
	// MayWrite reports whether somebody may write in a repository; nil is for nobody.
	MayWrite func(ctx context.Context, repository, login string) (bool, error)
	Logger   *slog.Logger
}

// Started is what an event has started.
type Started struct {
	// Runs are those that were queued, Repeated how many of them were before.
	Runs     []string
	Repeated int
	// Reason is why there are none.
	Reason string
}

// Hook is the address that GitHub posts to.
type Hook struct {
	cfg     Config
	mention *regexp.Regexp
	slots   chan struct{}
}

// New returns a Hook.
func New(cfg Config) *Hook {
	return &Hook{cfg: cfg, mention: mentionOf(cfg.Mention), slots: make(chan struct{}, maxAtOnce)}
}

// Answer is the answer to a delivery.
type Answer struct {
	// Status is accepted, duplicate, ignored or pong.
	Status     string   `json:"status"`
	DeliveryID string   `json:"delivery_id,omitempty"`
	Action     string   `json:"action,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Runs       []string `json:"runs,omitempty"`
}

// ServeHTTP takes one delivery.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.cfg.Secret == "" {
		refuse(w, http.StatusForbidden, nightcrier.Refused, "github.webhook_secret is not set: without it nobody can tell who sends; set it here and in the webhook's settings at GitHub")
		return
	}
	signature, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256="))
	if err != nil || len(signature) != sha256.Size || !strings.HasPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=") {
		h.refuseForged(w, r)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-time.After(patience):
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, nightcrier.Exhausted, "too many deliveries at once; deliver it again")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxPayload))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		h.note(r, slog.LevelWarn, "github_too_large", "")
		refuse(w, http.StatusRequestEntityTooLarge, nightcrier.Exhausted, "the payload is larger than 2 MiB, which none about a pull request or a comment is")
	case err != nil:
		refuse(w, http.StatusBadRequest, nightcrier.Interrupted, "the payload did not arrive in full")
	case !h.isSigned(body, signature):
		h.refuseForged(w, r)
	default:
		h.receive(w, r, body)
	}
}

func (h *Hook) isSigned(body, signature []byte) bool {
	mac := hmac.New(sha256.New, []byte(h.cfg.Secret))
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), signature)
}

func (h *Hook) refuseForged(w http.ResponseWriter, r *http.Request) {
	h.note(r, slog.LevelWarn, "github_forged", "")
	refuse(w, http.StatusUnauthorized, nightcrier.Refused, "X-Hub-Signature-256 does not fit: the secret here and in the webhook's settings at GitHub is not the same, or it was not GitHub that sent this")
}

// receive takes a delivery whose sender is known.
func (h *Hook) receive(w http.ResponseWriter, r *http.Request, body []byte) {
	kind, delivery := r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery")
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil || media != "application/json" || r.Header.Get("Content-Encoding") != "":
		refuse(w, http.StatusUnsupportedMediaType, nightcrier.Invalid, "choose the content type application/json in the webhook's settings at GitHub")
		return
	case kind == "ping":
		write(w, http.StatusOK, Answer{Status: "pong", DeliveryID: delivery})
		return
	case delivery == "" || len(delivery) > maxDelivery || !isPart(delivery):
		refuse(w, http.StatusBadRequest, nightcrier.Invalid, "X-GitHub-Delivery is missing, or is no id")
		return
	}
	e, err := h.readEvent(kind, body)
	if err == nil && e.Action == Mentioned {
		err = h.checkAuthor(r.Context(), e)
	}
	if err != nil {
		h.answerUnstarted(w, r, e, err)
		return
	}
	sum := sha256.Sum256(body)
	e.DeliveryID, e.Digest = delivery, hex.EncodeToString(sum[:])
	h.start(w, r, e)
}

// checkAuthor lets comments of those alone speak to us who may write.
func (h *Hook) checkAuthor(ctx context.Context, e Event) error {
	if h.cfg.MayWrite == nil {
		return ignore("comments need github.token, or github.app_id with its key: without them nobody can tell who may write")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	may, err := h.cfg.MayWrite(ctx, e.Repository, e.Sender)
	switch {
	case err != nil:
		return nightcrier.Errorf(nightcrier.Unreachable, "GitHub does not say what %s may do in %s: %w", e.Sender, e.Repository, err)
	case !may:
		return ignore("%s may not write in %s", e.Sender, e.Repository)
	}
	return nil
}

// start has an event start what is for it, and answers when that is stored.
func (h *Hook) start(w http.ResponseWriter, r *http.Request, e Event) {
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	started, err := h.cfg.Start(ctx, e)
	switch {
	case err != nil:
		h.answerUnstarted(w, r, e, nightcrier.Errorf(nightcrier.Unreachable, "it could not be stored: %w", err))
	case len(started.Runs) == 0:
		h.answerUnstarted(w, r, e, ignore("%s", started.Reason))
	case started.Repeated == len(started.Runs):
		h.note(r, slog.LevelInfo, "github_duplicate", "")
		write(w, http.StatusOK, Answer{Status: "duplicate", DeliveryID: e.DeliveryID, Runs: started.Runs})
	default:
		h.note(r, slog.LevelInfo, "github_accepted", e.Action)
		write(w, http.StatusAccepted, Answer{Status: "accepted", DeliveryID: e.DeliveryID, Action: e.Action, Runs: started.Runs})
	}
}

// answerUnstarted says why a delivery started nothing.
func (h *Hook) answerUnstarted(w http.ResponseWriter, r *http.Request, e Event, err error) {
	var no *ignored
	switch {
	case errors.As(err, &no):
		h.note(r, slog.LevelInfo, "github_ignored", no.reason)
		write(w, http.StatusOK, Answer{Status: "ignored", DeliveryID: r.Header.Get("X-GitHub-Delivery"), Action: e.Action, Reason: no.reason})
	case nightcrier.CodeOf(err) == nightcrier.Invalid:
		h.note(r, slog.LevelWarn, "github_payload", err.Error())
		refuse(w, http.StatusBadRequest, nightcrier.Invalid, err.Error())
	default:
		h.note(r, slog.LevelError, "github_not_stored", err.Error())
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, nightcrier.Unreachable, "the delivery could not be taken; deliver it again. The log says why")
	}
}

// note logs what became of a delivery. What the sender wrote is cut: it may be anybody.
func (h *Hook) note(r *http.Request, level slog.Level, event, detail string) {
	cut := func(s string) string { return s[:min(len(s), maxDelivery)] }
	h.cfg.Logger.LogAttrs(r.Context(), level, "a delivery of GitHub", slog.String("event", event), slog.String("kind", cut(r.Header.Get("X-GitHub-Event"))),
		slog.String("delivery", cut(r.Header.Get("X-GitHub-Delivery"))), slog.String("detail", detail))
}

// refuse answers with a problem as all of the API's are (RFC 9457).
func refuse(w http.ResponseWriter, status int, code nightcrier.Code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "code": code, "detail": detail}) // a sender that is gone cannot be told
}

func write(w http.ResponseWriter, status int, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // a sender that is gone cannot be told
}
