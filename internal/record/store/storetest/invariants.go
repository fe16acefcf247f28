package storetest

import (
	"context"
	"errors"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Invariants reads a whole store and reports everything in it that must never
// be, whatever happened to the processes that wrote it.
func Invariants(ctx context.Context, s *store.Store) error {
	incidents, err := allIncidents(ctx, s)
	if err != nil {
		return err
	}
	perIncident, err := eventsPerIncident(ctx, s)
	if err != nil {
		return err
	}
	var faults []error
	open := map[string]string{}
	for _, inc := range incidents {
		if n := perIncident[inc.ID]; n != inc.EventCount {
			faults = append(faults, fmt.Errorf("incident %s counts %d deliveries and has %d", inc.ID, inc.EventCount, n))
		}
		if other := open[inc.Fingerprint]; other != "" && inc.Status.Open() {
			faults = append(faults, fmt.Errorf("incidents %s and %s of one fault are open", inc.ID, other))
		}
		if inc.Status.Open() {
			open[inc.Fingerprint] = inc.ID
		}
		faults = append(faults, runsFit(ctx, s, inc), rootFits(ctx, s, inc))
		delete(perIncident, inc.ID)
	}
	for id, n := range perIncident {
		faults = append(faults, fmt.Errorf("%d events of incident %s, which does not exist", n, id))
	}
	return errors.Join(append(faults, leasesFit(ctx, s))...)
}

// rootFits checks that what an incident was caused by is a root of its cluster.
func rootFits(ctx context.Context, s *store.Store, inc nightcrier.Incident) error {
	if inc.CausedBy == "" {
		return nil
	}
	root, err := s.Incident(ctx, inc.CausedBy)
	if err == nil && (root.CausedBy != "" || root.Cluster != inc.Cluster || root.Fingerprint == inc.Fingerprint) {
		err = fmt.Errorf("incident %s of cluster %s was caused by %s of %s, which was caused by %q", inc.ID, inc.Cluster, root.ID, root.Cluster, root.CausedBy)
	}
	return err
}

func allIncidents(ctx context.Context, s *store.Store) (all []nightcrier.Incident, err error) {
	f := store.IncidentFilter{Limit: 1000}
	for {
		list, next, err := s.Incidents(ctx, f)
		all = append(all, list...)
		if err != nil || next == "" {
			return all, err
		}
		f.Cursor = next
	}
}

func eventsPerIncident(ctx context.Context, s *store.Store) (map[string]int, error) {
	n := map[string]int{}
	f := store.EventFilter{Limit: 1000}
	for {
		list, next, err := s.Events(ctx, f)
		for _, ev := range list {
			if ev.IncidentID != "" {
				n[ev.IncidentID] += 1 + ev.Repeats
			}
		}
		if err != nil || next == "" {
			return n, err
		}
		f.Cursor = next
	}
}

// runsFit checks that an open incident has one run that is to come or goes on,
// and a closed one none; and the chains of their journals.
func runsFit(ctx context.Context, s *store.Store, inc nightcrier.Incident) error {
	runs, err := s.Runs(ctx, inc.ID)
	if err != nil {
		return err
	}
	var open []string
	var faults []error
	for _, run := range runs {
		if run.Status == nightcrier.Queued || run.Status == nightcrier.Admitted {
			open = append(open, run.ID)
		}
		faults = append(faults, chainFits(ctx, s, run.ID))
	}
	switch {
	case !inc.Status.Open() && len(open) != 0:
		faults = append(faults, fmt.Errorf("incident %s is %s and has open runs %v", inc.ID, inc.Status, open))
	case inc.Status.Open() && (len(open) != 1 || open[0] != inc.RunID):
		faults = append(faults, fmt.Errorf("incident %s is %s and has open runs %v, not its %s", inc.ID, inc.Status, open, inc.RunID))
	}
	return errors.Join(faults...)
}

func chainFits(ctx context.Context, s *store.Store, run string) error {
	entries, err := s.Journal(ctx, run, 0, 0)
	prev := ""
	for i, e := range entries {
		if e.Seq != int64(i+1) || e.Prev != prev || e.Hash != e.ChainHash(prev) {
			return fmt.Errorf("the journal of run %s breaks at entry %d", run, i+1)
		}
		prev = e.Hash
	}
	return err
}

func leasesFit(ctx context.Context, s *store.Store) error {
	leased, err := s.LeasedRuns(ctx)
	byKey := map[string]string{}
	for _, run := range leased {
		if other := byKey[run.Key]; other != "" {
			return fmt.Errorf("runs %s and %s hold a lease of cluster %s", run.ID, other, run.Key)
		}
		byKey[run.Key] = run.ID
	}
	return err
}
