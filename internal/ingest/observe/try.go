package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

// Prober is what Try asks; *kube.Client is one.
type Prober interface {
	Newest(ctx context.Context, sel kube.Selection) (resourceVersion string, err error)
	Watch(ctx context.Context, sel kube.Selection, resourceVersion string, lasting time.Duration, each func(kube.Change) error) error
}

// Try opens every watch that an Observer of these kinds keeps open, all at once, and
// returns why each of them does not stand, nil where it does. They end when all were
// tried: a server may grant each one alone, and not so many together.
func Try(ctx context.Context, api Prober, kinds []detect.Watched) []error {
	errs := make([]error, len(kinds))
	var tried, ended sync.WaitGroup
	tried.Add(len(kinds))
	for i, w := range kinds {
		ended.Go(func() {
			once := sync.OnceFunc(tried.Done)
			defer once()
			errs[i] = attemptWatch(ctx, api, selectionOf(w), func() { once(); tried.Wait() })
		})
	}
	ended.Wait()
	return errs
}

// errStands ends a watch that was only tried.
var errStands = errors.New("the watch stands")

// attemptWatch opens one watch, and calls stands while it is open.
func attemptWatch(ctx context.Context, api Prober, sel kube.Selection, stands func()) error {
	version, err := api.Newest(ctx, sel)
	if err != nil {
		return err
	}
	err = api.Watch(ctx, sel, version, time.Minute, func(kube.Change) error {
		stands()
		return errStands
	})
	if errors.Is(err, errStands) {
		return nil
	}
	return err
}
