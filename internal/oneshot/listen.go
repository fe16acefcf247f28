package oneshot

import (
	"errors"
	"net"
	"os"
	"strconv"

	"nightcrier.dev/nightcrier"
)

// ListenOn listens on the address that a flag of a command names.
func ListenOn(flag, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %q is not an address: write host:port, such as 127.0.0.1:8808, or 127.0.0.1:0 for a free port", flag, address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %q has no port between 0 and 65535", flag, address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "%s %s: %w; choose another address, or port 0 for a free one", flag, address, whyNot(err))
	}
	return l, nil
}

// whyNot is the reason in a network error, without the call and the address around it.
func whyNot(err error) error {
	var call *os.SyscallError
	var op *net.OpError
	switch {
	case errors.As(err, &call):
		return call.Err
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
