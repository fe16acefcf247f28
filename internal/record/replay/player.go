package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Player is the tape of one step that is played again. It is safe for concurrent
// use.
type Player struct {
	head head

	mu      sync.Mutex
	entries map[string][]entry
}

// Blank is a tape with nothing on it: every question is one that was not asked.
func Blank() *Player { return &Player{entries: map[string][]entry{}} }

// Read reads the tape of a step. It is an Invalid error when it is none of this
// form, or damaged.
func Read(packed []byte, step string) (*Player, error) {
	p, err := unpackPlayer(packed, 2*maxTape)
	if err == nil && p.head.Step != step {
		err = fmt.Errorf("it is the tape of the step %q", text.CutBytes(p.head.Step, maxNamed))
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s cannot be read: %w", File(step), err)
	}
	return p, nil
}

// unpackPlayer unpacks so many bytes at most.
func unpackPlayer(packed []byte, most int64) (*Player, error) {
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	in.Multistream(false)
	lines := bufio.NewReader(io.LimitReader(in, most))
	p := Blank()
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && n > 0:
			return p, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		case n > maxEntries:
			return nil, fmt.Errorf("it has more than %d entries", maxEntries)
		case n == 0:
			err = p.readHead(line)
		default:
			err = p.addEntry(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
}

func (p *Player) readHead(line []byte) error {
	if err := json.Unmarshal(line, &p.head); err != nil {
		return err
	}
	if p.head.Format != Format {
		return fmt.Errorf("its format is %q, and %q is what this version plays", text.CutBytes(p.head.Format, maxNamed), Format)
	}
	return nil
}

func (p *Player) addEntry(line []byte) error {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	p.entries[e.Ask] = append(p.entries[e.Ask], e)
	return nil
}

// Version is that of the program which made the tape.
func (p *Player) Version() string { return p.head.Version }

// Take is a tape.Take that replays: the n-th question of a name gets the n-th answer that
// was recorded under it, a later one the last. A question that was not asked then, or whose
// answer was too large to be kept, is asked now.
func (p *Player) Take(name string, into any, ask func() error) error {
	e, ok := p.nextEntry(name)
	if !ok {
		return ask()
	}
	if e.Error != nil {
		return nightcrier.Errorf(e.Error.Code, "%s", e.Error.Text)
	}
	return e.fillAnswer(into)
}

// Peek fills into with the first answer that was recorded by a name, without taking
// it.
func (p *Player) Peek(name string, into any) error {
	p.mu.Lock()
	list := p.entries[name]
	p.mu.Unlock()
	if len(list) == 0 || list[0].Dropped || list[0].Error != nil {
		return nightcrier.Errorf(nightcrier.NotFound, "%q was not recorded", name)
	}
	return list[0].fillAnswer(into)
}

// fillAnswer writes the answer to where it is wanted.
func (e entry) fillAnswer(into any) error {
	body, isBody := into.(*[]byte)
	if !isBody {
		if err := json.Unmarshal(e.Value, into); err != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "what was recorded of %q is not what is asked for: %w", text.CutBytes(e.Ask, maxNamed), err)
		}
		return nil
	}
	if *body = e.Bytes; e.Text != nil {
		*body = []byte(*e.Text)
	}
	return nil
}

// nextEntry returns the next answer to a question.
func (p *Player) nextEntry(name string) (entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	on := onTape(name)
	list := p.entries[on]
	if len(list) == 0 || list[0].Dropped {
		return entry{}, false
	}
	if len(list) > 1 {
		p.entries[on] = list[1:]
	}
	return list[0], true
}

// maxNamed bounds what is said of a question on a tape, in bytes.
const maxNamed = 200
