// Package strictyaml reads what people write in YAML.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// What the YAML module says with the names of our types in it.
var (
	unknownField = regexp.MustCompile(`^field (.+) not found in type \S+$`)
	wrongType    = regexp.MustCompile(`(?s)^cannot construct !!(\w+)( .*)? into \S+$`)
)

// Unmarshal reads the one document of data into v; nothing leaves v as it is. A field that
// v does not have, a key that is given twice and a second document are errors. All of them
// are one line, and say where it is.
func Unmarshal(data []byte, v any) error {
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	if err := in.Decode(v); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return located(err)
	}
	var next yaml.Node
	if err := in.Decode(&next); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return located(err)
	}
	return fmt.Errorf("line %d: a second document begins here", next.Line)
}

// located says of an error where it is and what it is, without the names of our types.
func located(err error) error {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many):
	case errors.As(err, &one):
		many = &yaml.LoadErrors{Errors: []*yaml.LoadError{one}}
	default:
		return err
	}
	var lines []string
	for _, e := range many.Errors {
		what := unknownField.ReplaceAllString(e.Message, `unknown field "$1"`)
		what = wrongType.ReplaceAllString(what, "a $1$2 does not fit here")
		lines = append(lines, fmt.Sprintf("line %d: %s", e.Mark.Line, what))
	}
	return errors.New(strings.Join(lines, "; "))
}
