// Package goredis is what the libraries share that are given a go-redis client.
package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"lockkeeper.bench/peers/measure"
)

// Client is a go-redis client as it is by default, but for its name.
type Client struct {
	*redis.Client
}

// Open makes one; it connects when it is used.
func Open(url string) (Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return Client{}, err
	}
	options.ClientName = measure.ClientName
	return Client{redis.NewClient(options)}, nil
}

// Clients is the server's list of them.
func (c Client) Clients() (string, error) {
	return c.ClientList(context.Background()).Result()
}

// Forget deletes a key.
func (c Client) Forget(name string) error {
	return c.Del(context.Background(), name).Err()
}
