package diagnose

import "nightcrier.dev/nightcrier"

var certificateCauses = []Cause{
	{ID: "certificate-expired", Category: "Pod", Meaning: "a certificate that a container uses or is shown has expired", Rank: rankTold + 1},
	{ID: "certificate-invalid", Category: "Pod", Meaning: "a certificate is not trusted or is for another name", Rank: rankTold + 1},
	{ID: "clock-skew", Category: "Node", Meaning: "a clock is wrong: certificates or tokens seem to be from the future", Rank: rankTold + 2},
}

var certificateActions = []Step{
	{Action: "Read the certificate's dates, names and issuer on the side that shows it", Outcome: "tells which certificate is wrong and how", Risk: "none: read only"},
	{Action: "Renew the certificate, or give the container the authority that signed it", Outcome: "the connection is trusted", Risk: "what pins the old certificate fails"},
}

// certificateSayings: Go, OpenSSL (Python, curl, nginx, Node), Java, .NET.
var certificateSayings = []saying{
	{
		cause: "clock-skew", because: "a certificate or token is from the future: a clock is wrong",
		wrongIf: "the certificate was issued for a later time on purpose", refine: otherEnd,
		actions: []Step{
			{Action: "Compare the clocks of the nodes with each other and with the issuer's", Outcome: "tells which clock is wrong", Risk: "none: read only"},
			{Action: "Repair time synchronisation on the node that is off", Outcome: "certificates and tokens are valid again", Risk: "a jump of the clock upsets timers and databases"},
		},
		wordings: newWordings(
			`(?i)certificate (?:is )?not yet valid`, `CertificateNotYetValidException`, `CERT_NOT_YET_VALID`, `(?i)is before \d{4}-\d\d-\d\dT`, `NotBefore: `,
			`(?i)clock (?:skew|drift)`, `(?i)token used before issued`, `(?i)issued in the future`, `(?i)RequestTimeTooSkewed`, `(?i)iat.{0,30}in the future`,
			`(?i)ImmatureSignatureError`, `(?i)system clock.{0,40}(?:wrong|behind|ahead)`, `(?i)clock is (?:too far|not) `,
		),
	},
	{
		cause: "certificate-expired", because: "a certificate has expired",
		wrongIf: "the clock of the node is ahead", refine: otherEnd, actions: certificateActions,
		wordings: newWordings(
			`(?i)certificate (?:has|is) expired`, `(?i)x509: certificate has expired`, `CERT_HAS_EXPIRED`, `CertificateExpiredException`, `(?i)NotAfter: `,
			`(?i)is after \d{4}-\d\d-\d\dT`, `(?i)expired certificate`, `(?i)sslv3 alert certificate expired|tlsv1 alert certificate expired`, `(?i)certificate expired`,
			`(?i)certificate.{0,80}\bexpired (?:on|at|since)\b`,
		),
	},
	{
		cause: "certificate-invalid", because: "a certificate is not trusted or is for another name",
		wrongIf: "the other side is an impostor and is rightly refused", refine: otherEnd, actions: certificateActions,
		wordings: newWordings(
			`(?i)signed by unknown authority`, `(?i)x509: cannot validate certificate`, `(?i)x509: certificate is (?:valid for|not valid for)`, `(?i)certificate is not valid for`,
			`(?i)self[- ]signed certificate`, `UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|ERR_TLS_CERT_ALTNAME_INVALID`,
			`(?i)unable to get (?:local )?issuer certificate`, `(?i)certificate[ _]verify[ _]failed`, `(?i)hostname\b.{0,100}(?:doesn'?t|does not|mismatch).{0,20}match`, `(?i)hostname mismatch, certificate`,
			`(?i)PKIX path (?:building|validation) failed`, `SunCertPathBuilderException`, `(?i)no subject alternative (?:DNS )?name`, `(?i)remote certificate is invalid`, `(?i)x509: certificate relies on legacy Common Name`,
			`(?i)tls: bad certificate`, `(?i)alert unknown ca`, `(?i)private key does not match`, `(?i)key values mismatch`, `(?i)certificate specifies an incompatible key usage`,
		),
	},
}

// otherEnd names who showed the certificate, where it is a Service.
func otherEnd(f *Facts, c container, t told, n *Finding) {
	if e, ok := endpointIn(t.line); ok {
		n.Summary += ": " + e.String()
		if svc := f.Scene.serviceAt(c.pod.Object.Namespace, e); svc != nil {
			n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Service", Namespace: svc.Object.Namespace, Name: svc.Object.Name})
		}
	}
}
