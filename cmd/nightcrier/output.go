package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
)

// formatFlag gives cmd -o with the formats it has; the first is the default.
func (p *program) formatFlag(cmd *cobra.Command, formats ...string) {
	cmd.Flags().StringVarP(&p.format, "output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(formats, p.format) {
			return usageError(cmd, fmt.Errorf("-o %s is not one of %s", p.format, strings.Join(formats, ", ")))
		}
		return nil
	}
}

// printJSON prints one indented document.
func (p *program) printJSON(v any) error {
	return writeJSON(p.stdout, v, "  ")
}

// writeJSON writes one document and a newline. What would steer a terminal is
// escaped in a way that JSON reads as the same text.
func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeHidden(b.String()))
	return err
}

// escapeHidden escapes what encoding/json leaves as it is and a terminal obeys or
// hides: the controls above ASCII and the characters that order text. In a JSON
// document they stand inside strings only.
func escapeHidden(s string) string {
	if !strings.ContainsFunc(s, isSteering) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !isSteering(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isSteering(r rune) bool {
	return r >= 0x7F && text.IsHidden(r)
}

// printLines prints one document a line.
func printLines[T any](w io.Writer, list []T) error {
	for _, v := range list {
		if err := writeJSON(w, v, ""); err != nil {
			return err
		}
	}
	return nil
}

// printMessage tells people something beside the result.
func (p *program) printMessage(format string, args ...any) {
	fmt.Fprintln(p.stderr, text.DropHidden(fmt.Sprintf(format, args...)))
}

// sayFolded writes a message that holds no command to be copied, in lines that the
// terminal has room for.
func (p *program) sayFolded(format string, args ...any) {
	p.printMessage("%s", strings.Join(wrapText(fmt.Sprintf(format, args...), p.width), "\n"))
}

// cell is a text in a table, with the ANSI colour it has on a terminal.
type cell struct {
	text   string
	colour string
}

// table prints aligned columns under a heading.
type table struct {
	heading []string
	rows    [][]cell
	// expendable names the columns that a narrow terminal does without, the first
	// to go first.
	expendable []string
}

func (t *table) addRow(cells ...cell) { t.rows = append(t.rows, cells) }

func plainCell(s string) cell { return cell{text: s} }

// printTable writes the table; columns are two spaces apart, lines have no trailing
// space. Below a heading an empty cell is a dash, and a line of the table is one
// of the terminal; without a heading the last text goes on below itself.
func (p *program) printTable(t table) {
	rows, nothing := t.rows, ""
	if len(t.heading) > 0 {
		nothing = "-"
		head := make([]cell, len(t.heading))
		for i, h := range t.heading {
			head[i] = cell{h, "1"}
		}
		rows = append([][]cell{head}, rows...)
	}
	widths := make([]int, countColumns(rows))
	for _, row := range rows {
		for i := range row {
			row[i].text = cmp.Or(text.FoldLine(row[i].text), nothing)
			if i < len(row)-1 || len(t.heading) > 0 { // what stands behind a short line widens no column
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
			}
		}
	}
	for _, name := range t.expendable {
		if p.width == 0 || isRoomy(widths, p.width) {
			break
		}
		rows, widths = withoutColumn(slices.Index(t.heading, name), rows, widths)
		t.heading = slices.DeleteFunc(slices.Clone(t.heading), func(h string) bool { return h == name })
	}
	for _, row := range rows {
		p.printRow(row, widths, len(t.heading) == 0)
	}
}

func (p *program) printRow(row []cell, widths []int, whole bool) {
	line, from, last := "", 0, len(row)-1
	for i, c := range row[:last] {
		line += p.paintCell(c) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2)
		from += widths[i] + 2
	}
	texts := []string{p.fitText(row[last].text, from)}
	if whole {
		texts = wrapText(row[last].text, p.width-from)
	}
	for _, text := range texts {
		fmt.Fprintln(p.stdout, strings.TrimRight(line+p.paintCell(cell{text, row[last].colour}), " "))
		line = strings.Repeat(" ", from)
	}
}

// wrapText breaks a text between its words into lines of so many characters. Where
// there is hardly any room it stays one line.
func wrapText(s string, room int) (lines []string) {
	if room < leastLast {
		return []string{s}
	}
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

func countColumns(rows [][]cell) int {
	n := 0
	for _, row := range rows {
		n = max(n, len(row))
	}
	return n
}

const (
	// leastLast is what is left of the last text of a line at least.
	leastLast = 10
	// goodLast is what it needs to say something.
	goodLast = 32
)

// isRoomy reports whether the last column begins early enough for a terminal.
func isRoomy(widths []int, terminal int) bool {
	from := 0
	for _, w := range widths[:len(widths)-1] {
		from += w + 2
	}
	return terminal-from >= min(goodLast, widths[len(widths)-1])
}

// withoutColumn leaves a column out.
func withoutColumn(i int, rows [][]cell, widths []int) ([][]cell, []int) {
	out := make([][]cell, len(rows))
	for n, row := range rows {
		out[n] = slices.Delete(slices.Clone(row), i, i+1)
	}
	return out, slices.Delete(slices.Clone(widths), i, i+1)
}

// fitText clips the last text of a line that begins behind so many columns, so that
// it ends with the terminal. Where little would be left it is not clipped.
func (p *program) fitText(s string, from int) string {
	if room := p.width - from; room >= leastLast {
		return text.CutRunes(s, room)
	}
	return s
}

func (p *program) paintCell(c cell) string {
	if !p.colour || c.colour == "" {
		return c.text
	}
	return "\x1b[" + c.colour + "m" + c.text + "\x1b[0m"
}

const (
	red, green, yellow, blue, dim = "31", "32", "33", "36", "2"
)

func severityCell(s nightcrier.Severity) cell {
	return cell{s.String(), map[nightcrier.Severity]string{nightcrier.Critical: red, nightcrier.ErrorSeverity: yellow, nightcrier.Info: dim}[s]}
}

func statusCell(s nightcrier.IncidentStatus) cell {
	return cell{s.Words(), map[nightcrier.IncidentStatus]string{nightcrier.Resolved: green, nightcrier.Investigating: blue,
		nightcrier.Failed: red, nightcrier.AgentFailed: red, nightcrier.Listed: dim}[s]}
}

// ageCell tells how long ago t was, in one unit.
func (p *program) ageCell(t time.Time) cell {
	if t.IsZero() {
		return plainCell("")
	}
	return plainCell(duration.ShortHumanDuration(max(0, p.now().Sub(t))))
}

// wantsColour reports whether f is a terminal whose user has nothing against
// colour.
func wantsColour(f *os.File) bool { return knowsEscapeSequences(f) && os.Getenv("NO_COLOR") == "" }

// knowsEscapeSequences reports whether f is a terminal that knows escape sequences.
func knowsEscapeSequences(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// terminalWidth is how many columns f has, 0 when it is no terminal.
func terminalWidth(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
