package api

import (
	"context"
	"errors"
	"net"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api/sock"
)

// Try says whether Start could listen on every address, and leaves all as it was. Where
// a server answers on the socket already, the addresses are that server's: served is
// set, and nothing is tried.
func (s *Server) Try(ctx context.Context) (served bool, err error) {
	if conn, dialErr := sock.Dial(ctx, s.cfg.Socket); dialErr == nil {
		return true, conn.Close()
	}
	var errs []error
	for _, one := range []struct {
		key    string
		listen func() (net.Listener, error)
	}{{"listen", s.listenAPI}, {"health_listen", s.listenHealth}, {"webhook_listen", s.listenHooks}, {"page_listen", s.listenPage}} {
		l, err := one.listen()
		if err != nil {
			errs = append(errs, nightcrier.Errorf(nightcrier.CodeOf(err), "%s: %w", one.key, err))
		} else if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return false, errors.Join(errs...)
}
