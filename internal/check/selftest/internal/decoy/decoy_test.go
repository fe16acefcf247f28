package decoy

import (
	"net"
	"testing"
)

// A port that another has for UDP is no reason to give up.
func TestDecoysTryAnotherPort(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tries := 0
	tcp, udp, err := twoOnOne(func() (net.Listener, error) {
		if tries++; tries == 1 {
			if l, err := net.Listen("tcp", taken.LocalAddr().String()); err == nil {
				return l, nil
			}
		}
		return net.Listen("tcp", "127.0.0.1:0")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	defer udp.Close()
	if tcp.Addr().String() != udp.LocalAddr().String() || udp.LocalAddr().String() == taken.LocalAddr().String() {
		t.Errorf("TCP on %s, UDP on %s, and %s was taken", tcp.Addr(), udp.LocalAddr(), taken.LocalAddr())
	}
}
