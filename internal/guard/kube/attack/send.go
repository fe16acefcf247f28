package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Mark is the guard that a suite is run against.
type Mark struct {
	Addr  string // host:port
	Roots *x509.CertPool
	Token string
	// Names are the values of {ns}, {pod}, {node} and {secret}.
	Names map[string]string
}

// Reply is what came back; Status is 0 when the connection was closed instead.
type Reply struct {
	Status int
	Body   []byte
}

// Held reports whether the attack was refused, or is one that may be answered.
func (a Request) Held(r Reply) bool { return a.Harmless || r.Status == 0 || r.Status >= 400 }

// String is the attack's name and the way it takes.
func (a Request) String() string {
	if a.HTTP2 {
		return a.Name + " (HTTP/2)"
	}
	return a.Name
}

// replyTime is how long a reply may take. Some attacks leave the server waiting
// for what never comes.
const replyTime = 3 * time.Second

// Send makes the attack. An error means that it could not be made.
func (a Request) Send(ctx context.Context, m Mark) (Reply, error) {
	a = a.aimAt(m)
	protocol := "http/1.1"
	if a.HTTP2 {
		protocol = "h2"
	}
	d := tls.Dialer{Config: &tls.Config{RootCAs: m.Roots, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", m.Addr)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	if got := conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != protocol {
		return Reply{}, fmt.Errorf("the guard speaks %q, not %s", got, protocol)
	}
	if err := conn.SetDeadline(time.Now().Add(replyTime)); err != nil {
		return Reply{}, err
	}
	if a.HTTP2 {
		return a.overHTTP2(conn)
	}
	return a.overHTTP1(conn)
}

// aimAt puts the mark's names in.
func (a Request) aimAt(m Mark) Request {
	pairs := []string{"{token}", m.Token}
	for name, value := range m.Names {
		pairs = append(pairs, "{"+name+"}", value)
	}
	names := strings.NewReplacer(pairs...)
	a.Target, a.Body, a.Raw = names.Replace(a.Target), names.Replace(a.Body), names.Replace(a.Raw)
	header := http.Header{}
	for key, values := range a.Header {
		for _, v := range values {
			header[key] = append(header[key], names.Replace(v))
		}
	}
	if !a.Anonymous {
		header["Authorization"] = append(header["Authorization"], "Bearer "+m.Token)
	}
	a.Header = header
	return a
}

func (a Request) overHTTP1(conn net.Conn) (Reply, error) {
	text := a.Raw
	if text == "" {
		text = a.requestText()
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return Reply{}, nil // it was closed before all was said
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: a.Method})
	if err != nil {
		return Reply{}, nil // as good as a closed connection
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // what came until it was cut
	return Reply{resp.StatusCode, body}, nil
}

// requestText returns the request as it goes over HTTP/1.1, with nothing put right.
func (a Request) requestText() string {
	var b strings.Builder
	b.WriteString(a.Method + " " + a.Target + " HTTP/1.1\r\n")
	if a.Header["Host"] == nil {
		b.WriteString("Host: guard\r\n")
	}
	for key, values := range a.Header {
		for _, v := range values {
			b.WriteString(key + ": " + v + "\r\n")
		}
	}
	if a.Body != "" {
		b.WriteString("Content-Length: " + strconv.Itoa(len(a.Body)) + "\r\n")
	}
	return b.String() + "\r\n" + a.Body
}

// maxFrame is the size of a frame that every HTTP/2 server takes.
const maxFrame = 16 << 10

func (a Request) overHTTP2(conn net.Conn) (Reply, error) {
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return Reply{}, nil
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	if err := a.writeFrames(f); err != nil {
		return Reply{}, nil
	}
	return readFrames(f)
}

// writeFrames writes the request.
func (a Request) writeFrames(f *http2.Framer) error {
	err := f.WriteSettings()
	block := a.headerBlock()
	for first := true; err == nil && (first || len(block) > 0); first = false {
		part := block[:min(len(block), maxFrame)]
		block = block[len(part):]
		if first {
			err = f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: part, EndStream: a.Body == "" && a.Method != http.MethodConnect, EndHeaders: len(block) == 0,
			})
			continue
		}
		err = f.WriteContinuation(1, len(block) == 0, part)
	}
	if err == nil && a.Body != "" {
		err = f.WriteData(1, true, []byte(a.Body))
	}
	return err
}

// headerBlock is the header block.
func (a Request) headerBlock() []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	write := func(name, value string) { _ = enc.WriteField(hpack.HeaderField{Name: name, Value: value}) } // a buffer takes all
	authority := "guard"
	if host := a.Header["Host"]; host != nil {
		authority = host[0]
	}
	write(":method", a.Method)
	write(":authority", authority)
	if a.Method != http.MethodConnect || a.Target != "" {
		write(":scheme", "https")
		write(":path", a.Target)
	}
	for name, value := range a.Pseudo {
		write(name, value)
	}
	for key, values := range a.Header {
		for _, v := range values {
			if key != "Host" {
				write(strings.ToLower(key), v)
			}
		}
	}
	return b.Bytes()
}

// readFrames reads until the answer to the first stream is there or will not come.
func readFrames(f *http2.Framer) (Reply, error) {
	var r Reply
	for {
		frame, err := f.ReadFrame()
		if errors.As(err, new(http2.StreamError)) {
			continue
		}
		if err != nil {
			return r, nil
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return r, nil
			}
		case *http2.MetaHeadersFrame:
			r.Status, _ = strconv.Atoi(frame.PseudoValue("status"))
			if frame.StreamEnded() {
				return r, nil
			}
		case *http2.DataFrame:
			r.Body = append(r.Body, frame.Data()...)
			if frame.StreamEnded() {
				return r, nil
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return r, nil
		}
	}
}
