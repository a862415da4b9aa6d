package vectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/internal/egress"
)

// The bounds of a request and its answer.
const (
	maxBatch      = 64      // texts of one request
	maxText       = 2 << 10 // bytes of a text
	maxDimensions = 4096    // numbers of a vector
	maxNumber     = 32      // bytes of a number in an answer, with the space around it
	maxAnswer     = 8 << 20 // bytes of an answer
	maxRequest    = 30 * time.Second
	maxRetryAfter = 10 * time.Minute
)

// client asks an endpoint for vectors. It is safe for concurrent use.
type client struct {
	address, model, key string
	http                *egress.Client
}

func newClient(s *Settings) (*client, error) {
	address, policy, err := s.endpoint()
	if err != nil {
		return nil, err
	}
	guard, err := egress.New(policy)
	if err != nil {
		return nil, err
	}
	return &client{
		address: address, model: s.Model, key: s.APIKey.Reveal(),
		http: egress.NewClient(guard, egress.Limits{Timeout: maxRequest, Body: maxAnswer}, nil),
	}, nil
}

// refused is the error of an endpoint that answers with a status other than 200. It holds
// nothing of the body, which may repeat the key or the texts.
type refused struct {
	status int
	after  time.Duration // how long the endpoint wants to be left alone; 0 for not said
}

func (r *refused) Error() string {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the endpoint answers %d: api_key is missing, wrong or without the right to use the model", r.status)
	case http.StatusNotFound:
		return "the endpoint answers 404: the url is wrong, or it has no such model"
	}
	return fmt.Sprintf("the endpoint answers %d", r.status)
}

// ofTexts reports whether the endpoint may have refused one of the texts.
func (r *refused) ofTexts() bool {
	return r.status == http.StatusBadRequest || r.status == http.StatusRequestEntityTooLarge || r.status == http.StatusUnprocessableEntity
}

// embed returns the vectors of at most [maxBatch] texts, in their order. All have the
// same number of dimensions.
func (c *client) embed(ctx context.Context, texts []string) ([]*vector, error) {
	body, err := json.Marshal(map[string]any{"model": c.model, "input": texts})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address cannot be used") // the original error contains it
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.http.Do(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case answer.Status != http.StatusOK:
		return nil, &refused{answer.Status, retryAfter(answer.Header.Get("Retry-After"), time.Now())}
	case answer.Cut:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return parse(answer.Body, len(texts))
}

// retryAfter reads the header of that name (RFC 9110 section 10.2.3); 0 for none.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// parse reads the answer for n texts. It takes no answer that is too long for these,
// because reading one takes many times its length.
func parse(body []byte, n int) ([]*vector, error) {
	if most := 4<<10 + n*maxDimensions*maxNumber; len(body) > most {
		return nil, fmt.Errorf("the answer has %d bytes for %d texts; %d are taken", len(body), n, most)
	}
	var answer struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, errors.New("the answer is not JSON as an embeddings endpoint writes it") // the original error may hold texts
	}
	if len(answer.Data) != n {
		return nil, fmt.Errorf("the answer has %d vectors for %d texts", len(answer.Data), n)
	}
	out := make([]*vector, n)
	for at, d := range answer.Data {
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= n || out[at] != nil {
			return nil, errors.New("the answer numbers its vectors wrongly")
		}
		if len(d.Embedding) != len(answer.Data[0].Embedding) {
			return nil, errors.New("the answer has vectors of different lengths")
		}
		v, err := quantize(d.Embedding)
		if err != nil {
			return nil, err
		}
		out[at] = v
	}
	return out, nil
}

// quantize returns the vector of some numbers, normalised.
func quantize(numbers []float32) (*vector, error) {
	if len(numbers) == 0 || len(numbers) > maxDimensions {
		return nil, fmt.Errorf("the answer has a vector of %d numbers; 1 to %d are taken", len(numbers), maxDimensions)
	}
	var sum, most float64
	for _, x := range numbers {
		sum += float64(x) * float64(x)
		most = max(most, math.Abs(float64(x)))
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, errors.New("the answer has a vector without direction")
	}
	v := &vector{codes: make([]int8, len(numbers)), scale: float32(most / maxCode / math.Sqrt(sum))}
	for i, x := range numbers {
		v.codes[i] = int8(math.Round(float64(x) / most * maxCode))
	}
	v.setBits()
	return v, nil
}
