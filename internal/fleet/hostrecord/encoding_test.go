package hostrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
)

// longReason is about as long as a drain lets the reason of a step be.
const longReason = 600

// evacuationOf is one of so many VMs, every third of which failed.
func evacuationOf(machines int) *Evacuation {
	e := &Evacuation{Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Done: true}

	for i := range machines {
		s := RecordedStep{Step: evacuation.Step{
			UUID: uuid.NewString(), Name: fmt.Sprintf("customer-%d-web-%d", i%17, i), Strategy: evacuation.LiveMigrate,
			Origin: evacuation.OriginPolicy, Policy: "production", Method: evacuation.MethodLive, Target: "kvm2",
			Transfer: 1 << 33,
		}, Result: ResultMoved}
		if i%3 == 0 {
			s.Result = ResultFailed
			s.Reason = strings.Repeat(fmt.Sprintf("its guest %q writes faster than can be copied; ", s.Name), 40)[:longReason]
		}

		e.Steps = append(e.Steps, s)
	}

	return e
}

// A host of several hundred VMs, together with others of that size, has a record that libvirt keeps and that says
// everything.
func TestEncode_hundredsOfVMs(t *testing.T) {
	t.Parallel()

	small := Record{Cordon: &Cordon{ID: "kvm1", Owner: "alice", Why: "new memory"}, Evacuation: evacuationOf(20)}

	value, omitted, err := Encode(small, Limit)
	if err != nil || omitted != "" || !json.Valid(value) {
		t.Errorf("one that fits is not for people to read: %q, %v", omitted, err)
	}

	large := Record{Cordon: small.Cordon, Evacuation: evacuationOf(500), Elsewhere: map[string]*Evacuation{
		"kvm2": evacuationOf(300).Told("m"), "kvm3": evacuationOf(300).Told("n"),
	}}

	for i := range 20 {
		large.EvictionPolicies = append(large.EvictionPolicies, evacuation.Policy{
			Identity: policy.Identity{
				ID: uuid.NewString(), Name: fmt.Sprintf("tier-%d", i),
				Selector: policy.Selector{Labels: map[string]string{"tier": fmt.Sprint(i)}},
			},
			Strategy: evacuation.LiveMigrate,
		})
	}

	plain, err := json.Marshal(large)
	if err != nil || len(plain) < 4*Limit {
		t.Fatalf("%d bytes are no trial, %v", len(plain), err)
	}

	for _, record := range []Record{small, large} {
		value, omitted, err := Encode(record, Limit)
		if err != nil || omitted != "" || len(value) > Limit {
			t.Fatalf("%d bytes, without %q, %v", len(value), omitted, err)
		}

		read, err := Decode(value)
		if err != nil || !reflect.DeepEqual(read, record) {
			t.Errorf("%d bytes, read back: %v", len(value), err)
		}
	}
}

// What doesn't fit even so is shortened, by what is missed least first, and in the end refused with what fills it.
func TestEncode_degrades(t *testing.T) {
	t.Parallel()

	record := Record{
		Cordon: &Cordon{ID: "kvm1"}, Evacuation: evacuationOf(60),
		Elsewhere: map[string]*Evacuation{"kvm2": evacuationOf(90).Told("m")},
	}
	want := record.Evacuation.Steps[0].Reason
	lessThan := func(r Record) int {
		t.Helper()

		value, err := compressed(document{Version: version, Record: r})
		if err != nil {
			t.Fatal(err)
		}

		return len(value) - 1
	}

	value, omitted, err := Encode(record, lessThan(record))
	if err != nil || !strings.Contains(omitted, "other hosts") || strings.Contains(omitted, "failed") {
		t.Fatalf("without %q, %v", omitted, err)
	}

	read, err := Decode(value)
	if err != nil || len(read.Evacuation.Steps) != 60 || read.Evacuation.Steps[0].Reason != want ||
		!read.Elsewhere["kvm2"].Abridged || !read.Elsewhere["kvm2"].Done ||
		read.Elsewhere["kvm2"].Maintenance != "m" || len(read.Elsewhere["kvm2"].Steps) != 0 {
		t.Errorf("read back: %+v, %v", read.Elsewhere["kvm2"], err)
	}

	if len(record.Elsewhere["kvm2"].Steps) != 90 {
		t.Error("the caller's own record was shortened")
	}

	value, omitted, err = Encode(record, lessThan(record.withoutElsewhere()))
	if err != nil || !strings.Contains(omitted, "failed") {
		t.Fatalf("without %q, %v", omitted, err)
	}

	read, err = Decode(value)
	if err != nil || len(read.Evacuation.Steps) != 60 || read.Evacuation.Steps[0].Reason != "" ||
		read.Evacuation.Steps[0].Result != ResultFailed || record.Evacuation.Steps[0].Reason != want {
		t.Errorf("read back: %+v, %v", read.Evacuation.Steps[0], err)
	}

	least := record.withoutElsewhere().withoutReasons()
	if _, _, err := Encode(record, lessThan(least)); !errors.Is(err, ErrTooLong) {
		t.Errorf("what can't fit: %v", err)
	}

	if size := record.Size(); !strings.Contains(size, "60 steps") {
		t.Errorf("it says %s", size)
	}
}

// What is neither a document nor a whole one compressed is an error.
func TestDecode_damaged(t *testing.T) {
	t.Parallel()

	whole, err := compressed(document{Version: version, Record: Record{Evacuation: evacuationOf(30)}})
	if err != nil {
		t.Fatal(err)
	}

	if read, err := Decode(whole); err != nil || len(read.Evacuation.Steps) != 30 {
		t.Errorf("undamaged: %v", err)
	}

	for _, value := range [][]byte{whole[:len(whole)/2], whole[2:], []byte("not a record"), []byte("{")} {
		if _, err := Decode(value); err == nil {
			t.Errorf("%d bytes, starting with %x, are taken", len(value), value[:1])
		}
	}
}
