package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// serveList writes one page. The token of the next one is the version of the
// list and the last name.
func (s *Server) serveList(w http.ResponseWriter, r *http.Request, namespace, resource string, b Behaviour) {
	s.mu.Lock()
	t := s.table(resource)
	version, after, paged := strings.Cut(r.URL.Query().Get("continue"), "|")
	if !paged {
		version = strconv.Itoa(s.version)
	} else if own := s.behave[resource]; own.ExpirePages > 0 {
		own.ExpirePages--
		s.behave[resource] = own
		s.mu.Unlock()
		refuse(w, Behaviour{Status: http.StatusGone})
		return
	}
	names := t.names(namespace)
	if paged {
		i, found := slices.BinarySearch(names, after)
		if found {
			i++
		}
		names = names[i:]
	}
	size, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if b.PageSize > 0 && (size == 0 || b.PageSize < size) {
		size = b.PageSize
	}
	next := ""
	if size > 0 && len(names) > size {
		names = names[:size]
		next = version + "|" + names[size-1]
	}
	var objects [][]byte
	for _, n := range names {
		objects = append(objects, t.objects[n])
	}
	s.mu.Unlock()
	fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[`, version, next)
	for i, o := range objects {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		if b.Garbage != "" && i == len(objects)/2 {
			fmt.Fprint(w, b.Garbage)
		}
		_, _ = w.Write(o)
	}
	fmt.Fprint(w, "]}\n")
}

// serveWatch writes changes until the time is up, the watch is dropped, or the
// caller leaves. A bookmark comes every second, as that of a real server every
// minute.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, namespace, resource string, b Behaviour) {
	q := r.URL.Query()
	at, err := strconv.Atoi(q.Get("resourceVersion"))
	seconds, err2 := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil || err2 != nil {
		refuse(w, Behaviour{Status: http.StatusBadRequest})
		return
	}
	s.mu.Lock()
	cut := s.cut
	s.asked(resource).Watching++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked(resource).Watching--
	}()
	fmt.Fprint(w, b.Garbage)
	out := http.NewResponseController(w)
	_ = out.Flush()
	end, beat := time.After(time.Duration(seconds)*time.Second), time.NewTicker(time.Second)
	defer beat.Stop()
	for !b.EndWatches && b.Garbage == "" {
		changes, version, changed := s.since(resource, at)
		if version < 0 {
			fmt.Fprint(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}`+"\n")
			return
		}
		for _, c := range changes {
			if namespace != "" && c.namespace != namespace {
				continue
			}
			fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", c.kind, c.object)
		}
		at = version
		_ = out.Flush()
		select {
		case <-changed:
		case <-beat.C:
			fmt.Fprintf(w, `{"type":%q,"object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", kube.Bookmark, at)
			_ = out.Flush()
		case <-cut:
			return
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// since returns what happened after a version, the version now (-1 when that is
// not known any more), and what is closed at the next change.
func (s *Server) since(resource string, at int) ([]change, int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < s.oldest {
		return nil, -1, nil
	}
	all := s.table(resource).changes
	i := sort.Search(len(all), func(i int) bool { return all[i].version > at })
	return slices.Clone(all[i:]), s.version, s.changed
}
