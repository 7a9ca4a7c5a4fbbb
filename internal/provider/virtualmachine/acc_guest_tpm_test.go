package virtualmachine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// Commands of TPM 2.0, and what they are about. See the library specification, part 3.
const (
	tpmDefineSpace = 0x12a
	tpmNVWrite     = 0x137
	tpmNVRead      = 0x14e
	tpmPCRRead     = 0x17e
	tpmPCRExtend   = 0x182

	tpmOwner   = 0x40000001
	tpmIndex   = 0x01500001
	tpmPCR     = 16
	tpmSHA256  = 0x000b
	tpmWordLen = 8
)

// tpm has a guest give its TPM a command, with an empty password for the first of its handles, if it has any. The
// answer is what follows the TPM's return code.
func tpm(t *testing.T, l *lab.Lab, host, name string, command uint32, handles []uint32, parameters ...any) []byte {
	t.Helper()
	var body bytes.Buffer
	add := func(values ...any) {
		for _, value := range values {
			if err := binary.Write(&body, binary.BigEndian, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	tag := uint16(0x8001)
	add(handles)
	if len(handles) > 0 {
		tag = 0x8002
		add(uint32(9), uint32(0x40000009), uint16(0), uint8(0), uint16(0))
	}
	add(parameters...)
	parameter := bytes.Clone(body.Bytes())
	body.Reset()
	add(tag, uint32(10+len(parameter)), command, parameter)
	var octal strings.Builder
	for _, b := range body.Bytes() {
		fmt.Fprintf(&octal, `\%03o`, b)
	}
	out := outputInGuest(t, l, host, name, "exec 4<>/dev/tpm0; printf '"+octal.String()+
		"' >&4; dd bs=4096 count=1 <&4 2>/dev/null | busybox od -An -v -tx1")
	answer, err := hex.DecodeString(strings.Join(strings.Fields(out), ""))
	if err != nil || len(answer) < 10 || binary.BigEndian.Uint32(answer[6:]) != 0 {
		t.Fatalf("the TPM answers command %#x with %q: %v", command, out, err)
	}
	return answer[10:]
}

// TestAccGuest_tpmMoves: a move takes what a guest wrote to its TPM for good, and what the TPM has measured since the
// guest's boot.
func TestAccGuest_tpmMoves(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	boot := &boots{l: l, name: name}
	tf := acctest.NewCLI(t)
	// QEMU puts the initramfs of a kernel that it loads over the ACPI tables of a VM with a TPM. So the machine type is
	// one that works without them, and the kernel looks for the TPM where it always is. It hangs if it reads such tables.
	config := vmWithKernelWords(l, name, "acpi=off", "tpm_tis.force=1", "tpm_tis.interrupts=0").with(talking).with(hcl{
		"machine_type": quote("pc"), "devices": `{ tpm = { model = "tpm-tis" } }`,
		"termination_grace_period": quote("0s"), // Without ACPI, it has no power button.
	})
	apply := func(host string) {
		t.Helper()
		tf.Config(t, acctest.Config(l)+config.with(hcl{"host": quote(host)}).String())
		tf.Run(t, "apply")
		noChanges(t, tf)
		if err := boot.same(t, host)(nil); err != nil {
			t.Fatal(err)
		}
	}
	apply("kvm1")
	word := [tpmWordLen]byte([]byte("a marker"))
	measured := sha256.Sum256([]byte(name))
	const attributes = 0x00060006 // The owner may write and read it.
	tpm(t, l, "kvm1", name, tpmDefineSpace, []uint32{tpmOwner}, uint16(0), uint16(14), uint32(tpmIndex), uint16(tpmSHA256),
		uint32(attributes), uint16(0), uint16(tpmWordLen))
	tpm(t, l, "kvm1", name, tpmNVWrite, []uint32{tpmOwner, tpmIndex}, uint16(tpmWordLen), word, uint16(0))
	tpm(t, l, "kvm1", name, tpmPCRExtend, []uint32{tpmPCR}, uint32(1), uint16(tpmSHA256), measured)

	apply("kvm2")
	if kept := tpm(t, l, "kvm2", name, tpmNVRead, []uint32{tpmOwner, tpmIndex}, uint16(tpmWordLen),
		uint16(0)); !bytes.Contains(kept, word[:]) {
		t.Errorf("the TPM has kept %q, want %q", kept, word)
	}
	extended := sha256.Sum256(append(make([]byte, sha256.Size), measured[:]...))
	if pcr := tpm(t, l, "kvm2", name, tpmPCRRead, nil, uint32(1), uint16(tpmSHA256), uint8(3),
		[3]byte{0, 0, 1}); !bytes.HasSuffix(pcr, extended[:]) {
		t.Errorf("the TPM has measured %x, want %x", pcr, extended)
	}
	destroyAndCheck(t, l, tf, name)
}
