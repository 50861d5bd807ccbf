// npm install @apollo/client graphql rxjs; node apollo.mjs
import { createHash } from "node:crypto";
import { ApolloClient, HttpLink, InMemoryCache, gql } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";

const client = new ApolloClient({
  link: new PersistedQueryLink({
    sha256: (text) => createHash("sha256").update(text).digest("hex"),
  }).concat(new HttpLink({ uri: "http://127.0.0.1:8080/graphql/persisted" })),
  cache: new InMemoryCache(),
});

const { data } = await client.query({
  query: gql`
    query Newest($limit: Int) {
      posts(limit: $limit) { title author { name } }
    }
  `,
  variables: { limit: 2 },
});
console.log(data.posts);
