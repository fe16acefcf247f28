package eval

import (
	"math"
	"slices"

	"nightcrier.dev/nightcrier"
)

// Score is what one case came to.
type Score struct {
	Case string `json:"case"`
	// Object and Cause are what the report names. Cause is the verdict where there
	// is no root cause.
	Object     *nightcrier.Object    `json:"object"`
	Cause      string                `json:"cause"`
	Verdict    nightcrier.Verdict    `json:"verdict"`
	Confidence nightcrier.Confidence `json:"confidence,omitempty"`
	// Exact: verdict, cause and object are right. ObjectRight: the object is, for
	// faults; for others it is Exact.
	Exact       bool `json:"exact"`
	ObjectRight bool `json:"objectRight"`
	// Abstained: the report says undetermined where there is an answer.
	Abstained bool `json:"abstained"`
	// FalseAlarm: a fault is claimed where there is none, or something that the case
	// forbids is claimed. Forbidden names the latter.
	FalseAlarm bool   `json:"falseAlarm"`
	Forbidden  string `json:"forbidden,omitempty"`
	// Facts and Checked count the report's facts; CheckedShare is their ratio.
	Facts        int     `json:"facts"`
	Checked      int     `json:"checked"`
	CheckedShare float64 `json:"checkedShare"`
	// Reads are requests to the API, MS the milliseconds of the investigation.
	Reads int   `json:"reads"`
	MS    int64 `json:"ms"`
	// Expected is the right answer.
	Expected Expect `json:"expected"`
	// Error says why there is no report.
	Error string `json:"error,omitempty"`
}

// scoreReport holds a report against what the case expects.
func scoreReport(c Case, r *nightcrier.Report) Score {
	s := Score{
		Case: c.Name, Expected: c.Expect, Verdict: r.Verdict, Cause: string(r.Verdict),
		Facts: len(r.Facts), CheckedShare: r.CheckedShare, Reads: int(r.Usage.APIRequests), MS: r.Usage.DurationMS,
	}
	for _, f := range r.Facts {
		if f.Check == nightcrier.Seen || f.Check == nightcrier.Verified {
			s.Checked++
		}
	}
	if rc := r.RootCause; rc != nil {
		s.Object, s.Cause, s.Confidence = &rc.Object, rc.Cause, rc.Confidence
	}
	right := func(v nightcrier.Verdict) bool {
		return v == r.Verdict || v == Noise && r.Verdict == nightcrier.VerdictHealthy || v == nightcrier.VerdictHealthy && r.Verdict == Noise
	}
	s.Exact = right(c.Expect.Verdict)
	if c.Expect.Verdict == nightcrier.VerdictFault {
		s.ObjectRight = r.RootCause != nil && c.acceptsObject(r.RootCause.Object)
		s.Exact = s.Exact && s.ObjectRight && (s.Cause == c.Expect.Cause || slices.Contains(c.Expect.AlsoCauses, s.Cause))
	}
	s.Exact = s.Exact || slices.ContainsFunc(c.Expect.AlsoVerdicts, right)
	s.ObjectRight = s.ObjectRight || s.Exact
	s.Abstained = r.Verdict == nightcrier.VerdictUndetermined && !s.Exact
	s.Forbidden = c.forbiddenClaim(r)
	s.FalseAlarm = s.Forbidden != "" || r.Verdict == nightcrier.VerdictFault && c.nothingWrong()
	return s
}

// nothingWrong reports whether there is nothing to mend.
func (c *Case) nothingWrong() bool {
	return c.Expect.Verdict != nightcrier.VerdictFault && c.Expect.Verdict != nightcrier.VerdictUndetermined
}

// acceptsObject reports whether o is an object that the case accepts.
func (c *Case) acceptsObject(o nightcrier.Object) bool {
	return slices.ContainsFunc(append([]string{c.Expect.Object}, c.Expect.AlsoObjects...), func(s string) bool {
		meant, err := c.parseObject(s)
		return err == nil && isMeantObject(meant, o)
	})
}

// forbiddenClaim returns what a report claims against the case: as its root cause, or
// as a hypothesis that it holds for nearly certain.
func (c *Case) forbiddenClaim(r *nightcrier.Report) string {
	claims := func(cause string, o nightcrier.Object) bool {
		return r.RootCause != nil && r.RootCause.Cause == cause && (o.Name == "" || isMeantObject(o, r.RootCause.Object)) ||
			slices.ContainsFunc(r.Hypotheses, func(h nightcrier.Hypothesis) bool {
				return h.Confidence == nightcrier.High && h.Cause == cause && (o.Name == "" || isMeantObject(o, h.Object))
			})
	}
	for _, f := range c.Forbidden {
		cause, of, err := c.parseClaim(f)
		if of == nil {
			of = &nightcrier.Object{}
		}
		if err == nil && claims(cause, *of) {
			return f
		}
	}
	return ""
}

// Totals sums scores up.
type Totals struct {
	Cases       int `json:"cases"`
	Exact       int `json:"exact"`
	ObjectRight int `json:"objectRight"`
	Abstained   int `json:"abstained"`
	FalseAlarms int `json:"falseAlarms"`
	Errors      int `json:"errors"`
	// ExactShare is Exact by Cases, CheckedShare that of all facts.
	ExactShare   float64 `json:"exactShare"`
	CheckedShare float64 `json:"checkedShare"`
	// ReadsMean, MSP50 and MSP95 are of one investigation.
	ReadsMean float64 `json:"readsMean"`
	MSP50     int64   `json:"msP50"`
	MSP95     int64   `json:"msP95"`
	// CalibrationError is the expected calibration error of the root causes: how far
	// the stated confidences are from how often they were right, 0 to 1.
	CalibrationError float64 `json:"calibrationError"`
	// Calibration is what it comes from, for each confidence that was stated.
	Calibration []Level `json:"calibration"`
}

// Level is how often root causes of one confidence were right, and how often they should be.
type Level struct {
	Confidence nightcrier.Confidence `json:"confidence"`
	Stated     int                   `json:"stated"`
	Right      int                   `json:"right"`
	Share      float64               `json:"share"`
	Promised   float64               `json:"promised"`
}

// Sum sums scores up.
func Sum(scores []Score) Totals {
	t := Totals{Cases: len(scores), Calibration: calibrate(scores)}
	t.CalibrationError = calibrationError(t.Calibration)
	var facts, checked, reads int
	var ms []int64
	for _, s := range scores {
		t.Exact += oneIf(s.Exact)
		t.ObjectRight += oneIf(s.ObjectRight)
		t.Abstained += oneIf(s.Abstained)
		t.FalseAlarms += oneIf(s.FalseAlarm)
		t.Errors += oneIf(s.Error != "")
		facts, checked, reads = facts+s.Facts, checked+s.Checked, reads+s.Reads
		ms = append(ms, s.MS)
	}
	t.CheckedShare = divideOrZero(checked, facts)
	t.ExactShare, t.ReadsMean = divideOrZero(t.Exact, t.Cases), divideOrZero(reads, t.Cases)
	t.MSP50, t.MSP95 = percentile(ms, 50), percentile(ms, 95)
	return t
}

// calibrate counts how often each confidence was right.
func calibrate(scores []Score) (levels []Level) {
	for _, c := range []nightcrier.Confidence{nightcrier.High, nightcrier.Medium, nightcrier.Low} {
		l := Level{Confidence: c, Promised: c.Probability()}
		for _, s := range scores {
			if s.Confidence == c {
				l.Stated, l.Right = l.Stated+1, l.Right+oneIf(s.Exact)
			}
		}
		if l.Share = divideOrZero(l.Right, l.Stated); l.Stated > 0 {
			levels = append(levels, l)
		}
	}
	return levels
}

// calibrationError compares, for each confidence, how often it was right with how
// often it says it is, weighted by how often it was stated.
func calibrationError(levels []Level) float64 {
	var sum float64
	stated := 0
	for _, l := range levels {
		sum += float64(l.Stated) * math.Abs(l.Share-l.Promised)
		stated += l.Stated
	}
	if stated == 0 {
		return 0
	}
	return sum / float64(stated)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func divideOrZero(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// percentile returns the smallest value that p percent of all do not exceed.
func percentile(all []int64, p int) int64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[(len(all)*p+99)/100-1]
}

// Outcomes of a case, in a word.
const (
	Exact      = "exact"
	Object     = "object" // the object is right, the cause is not
	Abstained  = "abstained"
	FalseAlarm = "false alarm"
	Wrong      = "wrong"
	Failed     = "error"
)

// Outcome says in a word what the case came to, and what was expected where that
// is something else: the answer, or what should not have been claimed.
func (s Score) Outcome() (word, expected string) {
	expected = string(s.Expected.Verdict)
	if s.Expected.Cause != "" {
		expected = s.Expected.Cause + " " + s.Expected.Object
	}
	switch {
	case s.Error != "":
		return Failed, expected
	case s.Forbidden != "":
		return FalseAlarm, "not " + s.Forbidden
	case s.FalseAlarm:
		return FalseAlarm, expected
	case s.Exact:
		return Exact, ""
	case s.Abstained:
		return Abstained, expected
	case s.ObjectRight:
		return Object, expected
	}
	return Wrong, expected
}
