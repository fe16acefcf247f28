package intake

import "nightcrier.dev/nightcrier"

// mask hides the secrets in what the sender wrote, before it is stored: the
// payload, what was read from it, and what was found wrong with it. Names that
// Kubernetes allows stay as they are, because a fault hangs on them.
func (in *Intake) mask(ev *nightcrier.Event) {
	if in.cfg.Mask == nil {
		return
	}
	hide := func(text *string) { *text = in.cfg.Mask(ev.Cluster, *text) }
	raw := string(ev.Raw)
	for _, text := range []*string{&raw, &ev.FaultType, &ev.Container, &ev.Context, &ev.Detail} {
		hide(text)
	}
	if len(ev.Raw) > 0 {
		ev.Raw = []byte(raw)
	}
	for i := range ev.Logs {
		hide(&ev.Logs[i].Sample)
		hide(&ev.Logs[i].Error)
	}
	if ev.Reason == nightcrier.Malformed {
		hide(&ev.Resource.Name)
		hide(&ev.Resource.Namespace)
	}
}
