package worker

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// maxQuestion bounds a question for a name, in bytes; a name has at most 255.
const maxQuestion = 1024

// names answers an agent that looks up names, each in the same way: there is no such
// name. It asks nobody else, so an agent neither learns an address nor sends anything out
// by the name that it asks for.
type names struct {
	conn net.PacketConn
	done chan struct{}
}

// serveNames answers on conn, which it takes over, until close; nil serves nobody.
// asked is told of each name.
func serveNames(conn net.PacketConn, asked func(name string)) *names {
	if conn == nil {
		return nil
	}
	n := &names{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.answerNames(asked)
	}()
	return n
}

func (n *names) answerNames(asked func(name string)) {
	packet := make([]byte, maxQuestion)
	for failures := 0; ; {
		size, from, err := n.conn.ReadFrom(packet)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // it may be of one packet, or of all to come
			failures++
			time.Sleep(socketPause.Wait(failures))
			continue
		}
		failures = 0
		answer, name, err := noSuchName(packet[:size])
		if err != nil {
			continue // it is no question
		}
		if name != "localhost" { // which some ask for although /etc/hosts has it
			asked(name)
		}
		_, _ = n.conn.WriteTo(answer, from) // who does not wait needs no answer
	}
}

// close ends the answers.
func (n *names) close() {
	if n != nil {
		_ = n.conn.Close()
		<-n.done
	}
}

// noSuchName is the answer to a question, and the name that is asked for.
func noSuchName(packet []byte) (answer []byte, name string, err error) {
	var p dnsmessage.Parser
	head, err := p.Start(packet)
	if err != nil {
		return nil, "", err
	}
	if head.Response {
		return nil, "", errors.New("an answer")
	}
	q, err := p.Question()
	if err != nil {
		return nil, "", err
	}
	m := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: head.ID, Response: true, OpCode: head.OpCode, Authoritative: true,
			RecursionDesired: head.RecursionDesired, RecursionAvailable: true, RCode: dnsmessage.RCodeNameError,
		},
		Questions: []dnsmessage.Question{q},
	}
	answer, err = m.Pack()
	return answer, plainName(q.Name.String()), err
}

// plainName is a name as people read it: any byte may stand in it, in any case.
func plainName(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return strings.Trim(strconv.QuoteToASCII(name), `"`)
}
