package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/text"
)

// failure is why there is no answer of the model.
type failure struct {
	status  int // of HTTP, 0 where there was none
	message string
	after   time.Duration // for how long the API is not to be asked
}

func (f *failure) Error() string { return f.message }

// mayPass says whether to ask again may help.
func (f *failure) mayPass() bool {
	return f.status == 0 || f.status >= http.StatusInternalServerError || f.status == http.StatusTooManyRequests || f.status == http.StatusRequestTimeout
}

// isOther says whether another model may answer: this one is not there, or has too much to do.
func (f *failure) isOther() bool { return f.mayPass() || f.status == http.StatusNotFound }

// isTooLong says whether the conversation is longer than the model takes.
func (f *failure) isTooLong() bool {
	said := strings.ToLower(f.message)
	return f.status == http.StatusRequestEntityTooLarge || f.status == http.StatusBadRequest &&
		slices.ContainsFunc([]string{"too long", "context length", "context_length", "context window", "maximum context"}, func(s string) bool { return strings.Contains(said, s) })
}

// maxAfter is the longest that an API is waited for at its word.
const maxAfter = 2 * time.Minute

// maxAsked is how often one answer is asked for.
const maxAsked = 5

// askModel asks for the next message; free lets it call tools. The model is changed only for one
// that was named for it, and never without a word.
func (l *loop) askModel(ctx context.Context, free bool) (answer, error) {
	a, err := l.askPatiently(ctx, free)
	var f *failure
	if errors.As(err, &f) && f.isTooLong() && l.shrinkResults() {
		l.Tell(logItem("the conversation is longer than the model takes (%s): results are shortened, and it is asked again", text.CutLine(f.message, 200)))
		a, err = l.askPatiently(ctx, free)
	}
	for ctx.Err() == nil && errors.As(err, &f) && f.isOther() && len(l.Fallbacks) > 0 {
		next := l.Fallbacks[0]
		l.Tell(logItem("the model %s does not answer (%s): %s is asked from now on, which fallback_models names", l.Model, text.CutLine(f.message, 200), next))
		l.Model, l.Fallbacks = next, l.Fallbacks[1:]
		a, err = l.askPatiently(ctx, free)
	}
	if err == nil {
		l.used, l.usedBytes = min(max(a.tokens, 0), l.Window), l.countBytes()+len(a.said)
	}
	return a, err
}

// askPatiently asks again where that may help.
func (l *loop) askPatiently(ctx context.Context, free bool) (answer, error) {
	body, err := l.dialect.writeRequest(l, free)
	if err != nil {
		return answer{}, nightcrier.Errorf(nightcrier.Internal, "request of the model: %w", err)
	}
	for n := 1; ; n++ {
		a, err := l.askOnce(ctx, body)
		var f *failure
		if err == nil || !errors.As(err, &f) || !f.mayPass() || n == maxAsked {
			return a, err
		}
		pause := max(l.Pause.Wait(n), f.after)
		if !retry.Sleep(ctx, pause) {
			return answer{}, ctx.Err()
		}
	}
}

func (l *loop) askOnce(ctx context.Context, body []byte) (answer, error) {
	got, err := l.Ask(ctx, l.dialect.path(), body)
	if err != nil {
		return answer{}, &failure{message: err.Error()}
	}
	if got.Status != http.StatusOK {
		return answer{}, &failure{got.Status, apiMessage(got), retry.ReadAfter(got.Header, time.Now(), maxAfter)}
	}
	a, err := l.dialect.readAnswer(got.Body)
	if err != nil {
		return answer{}, &failure{message: "the model's answer cannot be read: " + text.CutLine(err.Error(), 200)}
	}
	return a, nil
}

// apiMessage is what an API says of an error, in one line.
func apiMessage(a Answer) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &e) == nil && e.Error.Message != "" {
		return fmt.Sprintf("HTTP %d: %s", a.Status, text.CutLine(e.Error.Message, 300))
	}
	return fmt.Sprintf("HTTP %d", a.Status)
}

// whyFailed is the end of a loop whose model was asked in vain.
func (l *loop) whyFailed(err error) End {
	var f *failure
	if !errors.As(err, &f) {
		return failed(nightcrier.FailAgent, err.Error())
	}
	return failed(agent.StatusClass(f.status), "the model "+l.Model+" does not answer: "+f.message)
}
