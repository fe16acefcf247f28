package worker

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// question is a packet that asks for a name.
func question(t testing.TB, name string) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: n, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

// Every name is answered with nothing, at once; what is no question gets no answer.
func TestNoNameLeadsAnywhere(t *testing.T) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	n := serveNames(c, func(name string) { asked <- name })
	defer n.close()
	agent, err := net.Dial("udp4", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	_ = agent.SetDeadline(time.Now().Add(30 * time.Second))
	answer := question(t, "an-answer.example.")
	answer[2] |= 0x80
	for _, garbage := range []string{"", "x", strings.Repeat("\xff", 4000), string(answer), string(question(t, "half.example.")[:20])} {
		if _, err := agent.Write([]byte(garbage)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"API.Vendor.example.": "api.vendor.example", ".": "", "a\nb\x1b[2J.evil.example.": `a\nb\x1b[2j.evil.example`} {
		q := question(t, name)
		if _, err := agent.Write(q); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2000)
		size, err := agent.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(got[:size]); err != nil || m.RCode != dnsmessage.RCodeNameError || m.ID != 7 || len(m.Answers)+len(m.Authorities)+len(m.Additionals) != 0 || size > len(q) {
			t.Errorf("%q is answered with %+v (%v), %d bytes", name, m, err, size)
		}
		if told := <-asked; told != want {
			t.Errorf("told of %q, want %q", told, want)
		}
	}
}

// A name can carry a word. It is journaled, and goes nowhere.
func TestNamesAreNoTunnel(t *testing.T) {
	b := newBench(t, `for i in 1 2 3; do getent hosts secret-$i.tunnel.example || getent ahostsv4 secret-$i.tunnel.example; done; getent hosts localhost && echo done`)
	r, entries := b.run()
	if !slices.Contains(r.Layers, process.LayerRoot) || !slices.Contains(r.Layers, process.LayerNetNS) {
		t.Skipf("SKIPPED ALOUD: no network namespace with a root of its own here; layers %v", r.Layers)
	}
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprintf("secret-%d.tunnel.example", i+1))
	}
	if got := tried(t, entries)["network"]; !slices.Equal(got, want) || r.Blocked < 3 || !strings.Contains(text(entries), "done") || r.State != nightcrier.StateSuccess {
		t.Errorf("names %q, %d attempts, %+v\n%s", got, r.Blocked, r, text(entries))
	}
}

func FuzzNoSuchName(f *testing.F) {
	f.Add(question(f, "api.example."))
	f.Add([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01\x1b\x00\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		answer, name, err := noSuchName(packet)
		if err != nil {
			return
		}
		if len(answer) > len(packet) || len(name) > 4*255 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%d bytes are answered with %d, about %q", len(packet), len(answer), name)
		}
	})
}
