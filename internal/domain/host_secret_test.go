package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSecrets: what a host needs to open a VM's disks and TPM, by what is declared and by what the definition has.
func TestSecrets(t *testing.T) {
	t.Parallel()
	declared := Spec{
		Values: Values{TPMSecret: "t"},
		Disks: map[string]Disk{
			"root": {Values: Values{EncryptionSecret: "r"}},
			"data": {Source: DiskSource{Network: &NetworkSource{Auth: &SourceAuth{Secret: "d"}}}},
			"iso":  {},
		},
	}
	want := []HostSecret{
		{UUID: "d", Attribute: "disks.data.network.auth.secret", Opens: `disk "data"`},
		{UUID: "r", Attribute: "disks.root.encryption.secret", Opens: `disk "root"`},
		{UUID: "t", Attribute: TPMSecret, Opens: "its TPM", TPM: true},
	}
	if diff := cmp.Diff(want, declared.Secrets()); diff != "" {
		t.Errorf("declared (-want +got):\n%s", diff)
	}
	defined := parse(t, `<domain type='kvm'><name>web</name><devices>
    <disk type='file'><source file='/a'><encryption format='luks'><secret type='passphrase' uuid='r'/></encryption>
      </source><target dev='vda'/></disk>
    <tpm><backend type='emulator'><encryption secret='t'/></backend></tpm></devices></domain>`)
	want = []HostSecret{
		{UUID: "r", Attribute: "disks.vda", Opens: `disk "vda"`},
		{UUID: "t", Attribute: TPMSecret, Opens: "its TPM", TPM: true},
	}
	mobility := defined.Mobility()
	if diff := cmp.Diff(want, mobility.Secrets()); diff != "" {
		t.Errorf("defined (-want +got):\n%s", diff)
	}
	if got := (Spec{}).Secrets(); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
