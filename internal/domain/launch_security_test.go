package domain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLaunchSecurity_document: what is written for each type is what libvirt's schema has for it, and is read as it
// was declared; a move knows that it can't copy the memory, and asks the target for the protection. The schema of
// libvirt 9.0 has sev and s390-pv, which TestLaunchSecurity_testDriver defines; the others are written as those of
// libvirt 10.5 and 11.6 have them.
func TestLaunchSecurity_document(t *testing.T) {
	t.Parallel()
	const at = "platform.launch_security."
	for document, want := range map[string]Values{
		`<launchSecurity type="s390-pv"/>`: {LaunchSecurityType: "s390-pv"},
		`<launchSecurity type="tdx"/>`:     {LaunchSecurityType: "tdx"},
		`<launchSecurity type="tdx"><policy>0x10000001</policy></launchSecurity>`: {
			LaunchSecurityType: "tdx", at + "policy": "0x10000001",
		},
		`<launchSecurity type="sev" kernelHashes="yes"><policy>0x3</policy><cbitpos>47</cbitpos>` +
			`<reducedPhysBits>1</reducedPhysBits><dhCert>YQ==</dhCert><session>Yg==</session></launchSecurity>`: {
			LaunchSecurityType: "sev", at + "policy": "0x3", at + "cbitpos": "47", at + "reduced_phys_bits": "1",
			at + "kernel_hashes": "yes", at + "dh_cert": "YQ==", at + "session": "Yg==",
		},
		`<launchSecurity type="sev-snp" kernelHashes="no"><policy>0x30000</policy><cbitpos>51</cbitpos>` +
			`<reducedPhysBits>1</reducedPhysBits><idBlock>YQ==</idBlock><idAuth>Yg==</idAuth><hostData>Yw==</hostData>` +
			`</launchSecurity>`: {
			LaunchSecurityType: "sev-snp", at + "policy": "0x30000", at + "cbitpos": "51", at + "reduced_phys_bits": "1",
			at + "kernel_hashes": "no", at + "id_block": "YQ==", at + "id_auth": "Yg==", at + "host_data": "Yw==",
		},
	} {
		if problems := (Spec{Values: want}).Validate(); len(problems) > 0 {
			t.Errorf("%s: %v", document, problems)
		}
		d := sample(t, "minimal")
		if err := d.Apply(Spec{Values: want}); err != nil {
			t.Errorf("%s: %v", document, err)
		}
		if got := render(child(d.root(), "launchSecurity")); got != document {
			t.Errorf("%s, want %s", got, document)
		}
		moved := d.Mobility()
		if kind := want[LaunchSecurityType]; moved.Confidential != kind {
			t.Errorf("what moves is protected by %q, want %q", moved.Confidential, kind)
		}
		if demands := moved.Values.Demands(); !slices.ContainsFunc(demands, func(d Demand) bool {
			return d.Path == LaunchSecurityType && d.Enum == "sectype" && d.Value == want[LaunchSecurityType] && !d.Usual
		}) {
			t.Errorf("%s: the target of a move is asked for %v", document, demands)
		}
		got := d.Spec().Values
		for path := range got {
			if !strings.HasPrefix(path, at) {
				delete(got, path)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := d.Apply(Spec{Values: Values{LaunchSecurityType: None}}); err != nil {
			t.Error(err)
		}
		if e := child(d.root(), "launchSecurity"); e != nil {
			t.Errorf("%s is left", render(e))
		}
	}
}

// TestLaunchSecurity_otherTools: a definition with settings that can't be declared keeps them when another setting
// changes.
func TestLaunchSecurity_otherTools(t *testing.T) {
	t.Parallel()
	all := corpus(t)
	for file, kept := range map[string][]string{
		"newer-sev-snp": {`authorKey="yes"`, `vcek="no"`, "<guestVisibleWorkarounds>", "<idBlock>YQ==<"},
		"newer-tdx":     {"<mrConfigId>bWFp<", "<quoteGenerationService path="},
	} {
		found := false
		for name, xml := range all {
			if !strings.HasSuffix(name, file+".xml") {
				continue
			}
			found = true
			d := parse(t, xml)
			if err := d.Apply(Spec{Values: Values{"platform.launch_security.policy": "0x5"}}); err != nil {
				t.Error(err)
			}
			for _, text := range append(kept, "<policy>0x5</policy>") {
				if !strings.Contains(strings.ReplaceAll(output(t, d), "'", `"`), text) {
					t.Errorf("%s has no %s:\n%s", file, text, output(t, d))
				}
			}
		}
		if !found {
			t.Errorf("the corpus has no %s", file)
		}
	}
}
