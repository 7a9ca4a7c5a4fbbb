package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// evacuationOf is one of so many machines, every third of which failed.
func evacuationOf(machines int) *Evacuation {
	e := &Evacuation{Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Done: true}

	for i := range machines {
		s := EvacuationStep{Step: eviction.Step{
			UUID: uuid.NewString(), Name: fmt.Sprintf("customer-%d-web-%d", i%17, i), Strategy: eviction.LiveMigrate,
			Origin: eviction.OriginPolicy, Policy: "production", Method: eviction.MethodLive, Target: "kvm2", Transfer: 1 << 33,
		}, Result: ResultMoved}
		if i%3 == 0 {
			s.Result = ResultFailed
			s.Reason = brief(strings.Repeat(fmt.Sprintf("its guest %q writes faster than can be copied; ", s.Name), 40))
		}

		e.Steps = append(e.Steps, s)
	}

	return e
}

// A host of several hundred machines, beside others of that size, has a record
// that libvirt keeps and that says everything.
func TestEncodeRecord_hundredsOfMachines(t *testing.T) {
	t.Parallel()

	small := HostRecord{Cordon: &Cordon{ID: "kvm1", Owner: "alice", Why: "new memory"}, Evacuation: evacuationOf(20)}

	value, omitted, err := encodeRecord(small, recordLimit)
	if err != nil || omitted != "" || !json.Valid(value) {
		t.Errorf("one that fits is not for people to read: %q, %v", omitted, err)
	}

	large := HostRecord{Cordon: small.Cordon, Evacuation: evacuationOf(500), Elsewhere: map[string]*Evacuation{
		"kvm2": evacuationOf(300).outline(), "kvm3": evacuationOf(300).outline(),
	}}

	for i := range 20 {
		large.EvictionPolicies = append(large.EvictionPolicies, eviction.Policy{
			Identity: policy.Identity{
				ID: uuid.NewString(), Name: fmt.Sprintf("tier-%d", i),
				Selector: policy.Selector{Labels: map[string]string{"tier": fmt.Sprint(i)}},
			},
			Strategy: eviction.LiveMigrate,
		})
	}

	plain, err := json.Marshal(large)
	if err != nil || len(plain) < 4*recordLimit {
		t.Fatalf("%d bytes are no trial, %v", len(plain), err)
	}

	for _, record := range []HostRecord{small, large} {
		value, omitted, err := encodeRecord(record, recordLimit)
		if err != nil || omitted != "" || len(value) > recordLimit {
			t.Fatalf("%d bytes, without %q, %v", len(value), omitted, err)
		}

		read, err := decodeRecord(value)
		if err != nil || read.Version != recordVersion || !reflect.DeepEqual(read.HostRecord, record) {
			t.Errorf("%d bytes, read back: %v", len(value), err)
		}
	}
}

// What doesn't fit even so is shortened, by what is missed least first, and in
// the end refused with what fills it.
func TestEncodeRecord_degrades(t *testing.T) {
	t.Parallel()

	record := HostRecord{
		Cordon: &Cordon{ID: "kvm1"}, Evacuation: evacuationOf(60),
		Elsewhere: map[string]*Evacuation{"kvm2": evacuationOf(90).outline()},
	}
	want := record.Evacuation.Steps[0].Reason
	lessThan := func(r HostRecord) int {
		t.Helper()

		value, err := compressed(recordDocument{Version: recordVersion, HostRecord: r})
		if err != nil {
			t.Fatal(err)
		}

		return len(value) - 1
	}

	value, omitted, err := encodeRecord(record, lessThan(record))
	if err != nil || !strings.Contains(omitted, "other hosts") || strings.Contains(omitted, "failed") {
		t.Fatalf("without %q, %v", omitted, err)
	}

	read, err := decodeRecord(value)
	if err != nil || len(read.Evacuation.Steps) != 60 || read.Evacuation.Steps[0].Reason != want ||
		!read.Elsewhere["kvm2"].Abridged || !read.Elsewhere["kvm2"].Done || len(read.Elsewhere["kvm2"].Steps) != 0 {
		t.Errorf("read back: %+v, %v", read.Elsewhere["kvm2"], err)
	}

	if len(record.Elsewhere["kvm2"].Steps) != 90 {
		t.Error("the caller's own record was shortened")
	}

	value, omitted, err = encodeRecord(record, lessThan(record.withoutElsewhere()))
	if err != nil || !strings.Contains(omitted, "failed") {
		t.Fatalf("without %q, %v", omitted, err)
	}

	read, err = decodeRecord(value)
	if err != nil || len(read.Evacuation.Steps) != 60 || read.Evacuation.Steps[0].Reason != "" ||
		read.Evacuation.Steps[0].Result != ResultFailed || record.Evacuation.Steps[0].Reason != want {
		t.Errorf("read back: %+v, %v", read.Evacuation.Steps[0], err)
	}

	least := record.withoutElsewhere().withoutReasons()
	if _, _, err := encodeRecord(record, lessThan(least)); !errors.Is(err, errTooLong) {
		t.Errorf("what can't fit: %v", err)
	}

	err = record.tooLong("kvm1")
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "60 steps") || errRemedy(err) == "" {
		t.Errorf("it says %v", err)
	}
}

// What is neither a document nor a whole one compressed is an error.
func TestDecodeRecord_damaged(t *testing.T) {
	t.Parallel()

	whole, err := compressed(recordDocument{Version: recordVersion, HostRecord: HostRecord{Evacuation: evacuationOf(30)}})
	if err != nil {
		t.Fatal(err)
	}

	if read, err := decodeRecord(whole); err != nil || len(read.Evacuation.Steps) != 30 {
		t.Errorf("undamaged: %v", err)
	}

	for _, value := range [][]byte{whole[:len(whole)/2], whole[2:], []byte("not a record"), []byte("{")} {
		if _, err := decodeRecord(value); err == nil {
			t.Errorf("%d bytes, starting with %x, are taken", len(value), value[:1])
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()

	if got := brief("short"); got != "short" {
		t.Error(got)
	}

	got := brief(strings.Repeat("ä", reasonLimit))
	if len(got) > reasonLimit+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-8:])
	}
}
