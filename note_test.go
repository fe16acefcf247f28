package nightcrier

import (
	"strings"
	"testing"
	"time"
)

func TestNewNote(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.FixedZone("", 7200))
	for name, c := range map[string]struct {
		by, text       string
		wantBy, wanted string
		refused        bool
	}{
		"plain":              {by: "ana", text: "raised the limit", wantBy: "ana", wanted: "raised the limit"},
		"lines stay":         {text: "first\n\tsecond\r\n", wanted: "first\n\tsecond"},
		"nobody sees these":  {by: "a\u202ena\n\x1b[31m", text: "rm\u202e -rf\x1b[2J\u200b\x00", wantBy: "ana [31m", wanted: "rm -rf[2J"},
		"no UTF-8":           {text: "a\xffb", wanted: "a\uFFFDb"},
		"empty":              {text: " \n\u200b", refused: true},
		"just fits":          {text: strings.Repeat("x", MaxNote), wanted: strings.Repeat("x", MaxNote)},
		"too long":           {text: strings.Repeat("x", MaxNote+1), refused: true},
		"too long a name":    {by: strings.Repeat("x", MaxNoteBy+1), text: "x", refused: true},
		"markup is not ours": {text: "<!channel> <script>", wanted: "<!channel> <script>"},
	} {
		n, err := NewNote(c.by, c.text, at)
		if c.refused {
			if CodeOf(err) != Invalid {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || n.By != c.wantBy || n.Text != c.wanted || n.At.Location() != time.UTC || !n.At.Equal(at) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}
