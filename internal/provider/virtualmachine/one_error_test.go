package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestValidate_oneErrorForOneMistake: what a type, a validator or the domain package says of a value, the others don't
// say again.
func TestValidate_oneErrorForOneMistake(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`"memory": {"size": "1Gi", "huge_pages": "2Gi"}`:       "memory.huge_pages: A page of 2Gi doesn't fit into",
		`"devices": {"virtio_mem": {"a": {"size": "abc"}}}`:    `"abc" is not a valid quantity`,
		`"devices": {"virtio_mem": {"a": {"size": "0"}}}`:      `"0" is not a valid quantity`,
		`"devices": {"virtio_mem": {"a": {"size": "1G"}}}`:     "which isn't a multiple of 1024",
		`"devices": {"virtio_mem": {"a": {"size": "3Mi"}}}`:    "It isn't a multiple of the block",
		`"devices": {"virtio_mem": {"a": {"block": "4Mi"}}}`:   "virtio_mem.a.size: It must be declared.",
		`"cpu": {"numa": {"0": {"memory": "x", "cpus": "0"}}}`: `"x" is not a valid quantity`,
		`"interfaces": {"lan": {"user": true, "mtu": 10}}`:     `"10" isn't a number from 68 to 65535`,
		`"interfaces": {"lan": {"bridge": "b", "mtu": -1}}`:    `"-1" isn't a number from 0`,
		`"cpu": {"quota": -1}`:                                 `"-1" isn't a number from 0`,
	} {
		if !strings.HasPrefix(config, `"memory"`) {
			config = `"memory": {"size": "1Gi"}, ` + config
		}
		if said := validationErrors(t, config); len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("%s: %q, want once: %s", config, said, want)
		}
	}
}

// TestValidate_diskSizesHideNothing: the size of a disk may be any number of bytes.
func TestValidate_diskSizesHideNothing(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"1Gi", "1G"} {
		said := validationErrors(t, `"disks": {"root": {"size": "`+size+`"}}`)
		if len(said) != 2 || !strings.Contains(said[0], "A disk needs a source") {
			t.Errorf("%s: %q", size, said)
		}
	}
}

// validationErrors returns the errors that a VM's configuration has.
func validationErrors(t *testing.T, config string) []string {
	t.Helper()
	r := newRPC(t, local, typical)
	resp, err := providerserver.NewProtocol6(r.provider)().ValidateResourceConfig(t.Context(),
		&tfprotov6.ValidateResourceConfigRequest{
			TypeName: virtualmachine.TypeName, Config: r.wire(r.value(r.schema, `{"name": "web", `+config+`}`)),
		})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, d := range resp.Diagnostics {
		said = append(said, d.Detail)
	}
	return said
}
