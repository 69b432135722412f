// What k8s.io/apimachinery makes of random quantities, one case a line, for src/base/quantity_test.cpp:
//
//	parse TEXT ok|bad CANONICAL VALUE MILLI FLOAT
//	pair  A B CMP SUM DIFFERENCE
//
// "?" stands where apimachinery is known to answer wrongly without an error: integers that overflow, negative big
// decimals rounded towards zero, canonical forms that lost their suffix. `-n` and `-seed` choose the cases:
//
//	go run . -seed 7 -n 200000 > /tmp/quantity.tsv
//	BASCULE_QUANTITY_CASES=/tmp/quantity.tsv build/dev/src/base/base_test --gtest_filter='Quantity*'
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

var suffixes = []string{"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
var odd = []string{"i", "K", "mi", "ki", "e", "ee3", "e+", "e3m", "Ki2", "+5", " ", "x", "E+3", "e-0", "E", "eE", "m1", "Mi-"}

func digits(r *rand.Rand, max int) string {
	n := r.Intn(max)
	var b strings.Builder
	for i := 0; i < n; i++ {
		switch r.Intn(4) {
		case 0:
			b.WriteByte('0')
		default:
			b.WriteByte(byte('0' + r.Intn(10)))
		}
	}
	return b.String()
}

func text(r *rand.Rand) string {
	var b strings.Builder
	switch r.Intn(8) {
	case 0:
		b.WriteByte('-')
	case 1:
		if r.Intn(4) == 0 {
			b.WriteByte('+')
		}
	}
	max := []int{3, 5, 12, 22, 45}[r.Intn(5)]
	b.WriteString(digits(r, max))
	if r.Intn(3) == 0 {
		b.WriteByte('.')
		b.WriteString(digits(r, []int{3, 8, 25}[r.Intn(3)]))
	}
	if !strings.ContainsAny(b.String(), "0123456789") {
		b.WriteByte('7') // without a digit apimachinery reads some suffixes as zero
	}
	switch r.Intn(12) {
	case 0:
		b.WriteString(odd[r.Intn(len(odd))])
	case 1, 2:
		b.WriteString(fmt.Sprintf("%c%d", "eE"[r.Intn(2)], r.Intn(60)-30))
	default:
		b.WriteString(suffixes[r.Intn(len(suffixes))])
	}
	return b.String()
}

// Without the text it was parsed from, which String would give back.
func canonical(q resource.Quantity) string {
	c := q.DeepCopy()
	c.Neg()
	c.Neg()
	s := c.String()
	back, err := resource.ParseQuantity(s)
	if err != nil || back.Cmp(q) != 0 {
		return "?"
	}
	return s
}

func scaled(q resource.Quantity, scale resource.Scale, get func() int64) string {
	c := q.DeepCopy()
	d := new(inf.Dec).Set(c.AsDec())
	rounded := new(inf.Dec).Round(d, inf.Scale(-scale), inf.RoundUp)
	units := rounded.UnscaledBig()
	if !units.IsInt64() || units.Int64() != get() {
		return "?"
	}
	return strconv.FormatInt(get(), 10)
}

func main() {
	seed := flag.Int64("seed", 1, "")
	n := flag.Int("n", 400, "number of cases of each sort")
	flag.Parse()
	r := rand.New(rand.NewSource(*seed))
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	var good []string
	for i := 0; i < *n; i++ {
		t := text(r)
		q, err := resource.ParseQuantity(t)
		if err != nil {
			fmt.Fprintf(w, "parse\t%s\tbad\n", t)
			continue
		}
		good = append(good, t)
		value := q.DeepCopy()
		f := value.AsApproximateFloat64()
		fmt.Fprintf(w, "parse\t%s\tok\t%s\t%s\t%s\t%s\n", t, canonical(q), scaled(q, 0, func() int64 { return value.Value() }),
			scaled(q, resource.Milli, func() int64 { return value.MilliValue() }), strconv.FormatFloat(f, 'g', -1, 64))
	}
	for i := 0; i < *n; i++ {
		a, b := good[r.Intn(len(good))], good[r.Intn(len(good))]
		x, y := resource.MustParse(a), resource.MustParse(b)
		sum, difference := x.DeepCopy(), x.DeepCopy()
		sum.Add(y.DeepCopy())
		difference.Sub(y.DeepCopy())
		fmt.Fprintf(w, "pair\t%s\t%s\t%d\t%s\t%s\n", a, b, x.Cmp(y), canonical(sum), canonical(difference))
	}
}
