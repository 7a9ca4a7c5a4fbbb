package domain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

func TestDefinition_attachmentsAndBootMemory(t *testing.T) {
	t.Parallel()
	d, err := domain.Parse(`<domain type="qemu" id="1"><memory unit="MiB">1280</memory><devices>
  <interface type="network"><mac address="52:54:00:AA:00:01"/>
    <source network="lan" portid="7d" bridge="virbr0"/><target dev="vnet3"/><driver queues="4"/>
    <alias name="ua-net-lan"/></interface>
  <interface type="bridge"><mac address="52:54:00:aa:00:02"/>
    <source network="outside" portid="8e" bridge="br0"/><link state="down"/></interface>
  <memory model="dimm"><target><size unit="MiB">256</size></target></memory>
</devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	want := []domain.Attachment{
		{Key: "lan", MAC: "52:54:00:aa:00:01", Device: "vnet3", LinkUp: true, Queues: 4, Network: "lan", Port: "7d"},
		{Key: "net1", MAC: "52:54:00:aa:00:02", Queues: 1},
	}
	if diff := cmp.Diff(want, d.Attachments()); diff != "" {
		t.Error(diff)
	}
	if got := d.BootMemory(); got != 1<<30 {
		t.Errorf("boots with %d bytes", got)
	}
}
