// Package text makes text that others wrote fit to be shown: bounded, on one line where
// it stands in one, and without characters that nobody sees.
//
// Three verbs say what becomes of a text:
//
//   - Keep returns a part of the text as it is, so that its length is an offset. The
//     caller says that there was more.
//   - Cut returns what a person reads, never longer than asked: where something is left
//     out it ends with "…", which counts.
//   - Fold, Drop and Mark clean: the first two take out what is hidden, as for a person;
//     Mark puts U+FFFD in its place, as for evidence.
//
// Where a text is masked as well, MaskClean does both in the right order.
//
// All but Keep return valid UTF-8: each run of invalid bytes is one U+FFFD. How a text is
// escaped (Markdown, HTML, Slack, a prompt) is the business of whoever writes there.
//
// The room also reads what people write. It offers:
//
//   - expr: the expressions of a configuration and of pipelines
//   - strictyaml: YAML, with nothing in it that is not known
package text
